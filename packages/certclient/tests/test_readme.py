"""The README's lines, run as they stand with the real libraries, before and after a rotation."""

import ast
import asyncio
import inspect
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import httpx
import pytest
import requests
import uvicorn
from aiohttp import web
from cryptography import x509

import certclient
from certclient import Certificates, IstioCaConfig, RotationConfig, SpiffeId, keep_fresh
from certclient.testing import FakeAuthority, fake_istio_ca

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = dict(re.findall(r"```python (\w+)\n(.*?)```", README.read_text(), re.DOTALL))


@pytest.fixture
async def certificates(
    config: RotationConfig, real_authority: FakeAuthority
) -> AsyncIterator[Certificates]:
    async with asyncio.timeout(60), keep_fresh(config, real_authority) as certificates:
        await certificates.wait_for_first()
        yield certificates


async def example(name: str, **names: object) -> dict[str, Any]:
    """Run an example's lines; return what they leave."""
    face = {each: getattr(certclient, each) for each in certclient.__all__}
    scope: dict[str, Any] = {**face, "asyncio": asyncio, **names}
    code = compile(EXAMPLES[name], str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, scope)  # noqa: S307 - our own README
    if inspect.isawaitable(running):
        await running
    return scope


async def show_of(channel: grpc.aio.Channel) -> bytes:
    call = channel.unary_unary("/Peer/Show", request_serializer=bytes, response_deserializer=bytes)
    answer: bytes = await call(b"")
    return answer


def serial_of(transport: asyncio.BaseTransport | None) -> int:
    assert transport is not None
    der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(der).serial_number


async def test_asyncio_streams(certificates: Certificates) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    names = await example("asyncio", certificates=certificates, handle=handle)
    async with names["server"] as server:
        port = server.sockets[0].getsockname()[1]
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=names["ours"])
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            assert certificates.latest is not None
            assert serial_of(writer.transport) == certificates.latest.serial
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            await certificates.renew()


async def test_aiohttp(certificates: Certificates) -> None:
    async def show(request: web.Request) -> web.Response:
        return web.Response(text=f"{serial_of(request.transport):x}")

    application = web.Application()
    application.router.add_get("/", show)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        for _ in range(2):
            names = await example(
                "aiohttp", certificates=certificates, runner=runner, web=web, aiohttp=aiohttp
            )
            await names["site"].start()
            port = runner.addresses[-1][1]
            async with aiohttp.ClientSession(connector=names["connector"]) as session:
                for _ in range(2):
                    # Each request on a connection of its own: a kept one keeps its certificate.
                    async with session.get(
                        f"https://127.0.0.1:{port}/", headers={"Connection": "close"}
                    ) as response:
                        assert certificates.latest is not None
                        assert await response.text() == f"{certificates.latest.serial:x}"
                    await certificates.renew()
    finally:
        await runner.cleanup()


async def test_grpc(certificates: Certificates) -> None:
    async def show(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        return request + b"".join(context.auth_context()["x509_pem_cert"])

    names = await example("grpc", certificates=certificates, grpc=grpc)
    server = names["server"]
    handlers = {"Show": grpc.unary_unary_rpc_method_handler(show)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Peer", handlers),))
    await server.start()
    target = f"127.0.0.1:{names['port']}"
    try:
        async with names["channel"] as channel:
            before = await show_of(channel)
        renewed = await certificates.renew()
        async with certclient.grpc_channel(
            certificates, target, authorize=lambda _: True
        ) as channel:
            after = await show_of(channel)
        assert before != after
        assert x509.load_pem_x509_certificate(after).serial_number == renewed.serial
    finally:
        await server.stop(None)
        names.clear()  # its lambdas refer to it, and it to the server


async def application(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """An ASGI application that answers every request."""
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def uvicorn_server(
    certificates: Certificates,
) -> AsyncIterator[tuple[int, httpx.AsyncClient]]:
    names = await example(
        "uvicorn", certificates=certificates, app=application, uvicorn=uvicorn, httpx=httpx
    )
    server: uvicorn.Server = names["server"]
    server.config.lifespan = "off"
    server.config.log_config = None
    serving = asyncio.create_task(server.serve(), name="uvicorn")
    try:
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1], names["client"]
    finally:
        await names["client"].aclose()
        server.should_exit = True
        await serving


def shown_by(port: int, certificates: Certificates) -> int:
    """The serial of the certificate that a server shows to a client of the mesh."""
    context = certclient.client_context(certificates)
    with (
        socket.create_connection(("127.0.0.1", port)) as connection,
        context.wrap_socket(connection) as tls,
    ):
        der = tls.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


async def test_uvicorn_and_httpx(certificates: Certificates) -> None:
    async with uvicorn_server(certificates) as (port, client):
        for _ in range(2):
            answer = await client.get(f"https://127.0.0.1:{port}/", headers={"Connection": "close"})
            assert answer.text == "hello"
            assert certificates.latest is not None
            serial = await asyncio.to_thread(shown_by, port, certificates)
            assert serial == certificates.latest.serial
            await certificates.renew()


async def test_uvicorn_refuses_a_client_without_a_certificate(certificates: Certificates) -> None:
    async with uvicorn_server(certificates) as (port, _):
        async with httpx.AsyncClient(verify=False) as stranger:  # noqa: S501 - it is the stranger
            with pytest.raises(httpx.TransportError):
                await stranger.get(f"https://127.0.0.1:{port}/")


async def test_requests(certificates: Certificates) -> None:
    async with uvicorn_server(certificates) as (port, _):
        names = await example("requests", certificates=certificates, requests=requests)
        with names["session"] as session:
            for _ in range(2):
                answer = await asyncio.to_thread(
                    session.get, f"https://127.0.0.1:{port}/", headers={"Connection": "close"}
                )
                assert answer.text == "hello"
                await certificates.renew()


async def test_requests_does_not_talk_to_a_stranger(
    certificates: Certificates, spiffe_id: SpiffeId
) -> None:
    """Another authority's server, of the same name, with a certificate of its own roots."""
    other = RotationConfig(spiffe_id=spiffe_id)
    async with keep_fresh(other, FakeAuthority()) as foreign:
        await foreign.wait_for_first()
        async with uvicorn_server(foreign) as (port, _):
            names = await example("requests", certificates=certificates, requests=requests)
            with names["session"] as session:
                with pytest.raises(requests.exceptions.SSLError):
                    await asyncio.to_thread(session.get, f"https://127.0.0.1:{port}/", verify=False)


async def test_a_synchronous_program(
    certificates: Certificates, config: RotationConfig, real_authority: FakeAuthority
) -> None:
    async with fake_istio_ca(real_authority) as ca, uvicorn_server(certificates) as (port, _):
        names = {
            "ca": IstioCaConfig(address=ca.address, root_certificate=None),
            "workload": config,
            "httpx": httpx,
            "url": f"https://127.0.0.1:{port}/",
        }
        face = {each: getattr(certclient, each) for each in certclient.__all__}
        scope: dict[str, Any] = {**face, **names}
        await asyncio.to_thread(exec, EXAMPLES["synchronous"], scope)
    assert scope["answer"] == "hello"


def test_each_example_has_five_lines_at_most() -> None:
    assert set(EXAMPLES) == {"asyncio", "aiohttp", "uvicorn", "grpc", "requests", "synchronous"}
    assert max(len(text.splitlines()) for text in EXAMPLES.values()) <= 5
