"""Callers that only hold connections, on every port, beside callers that want an answer."""

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from aiohttp import web

from mesh_discovery._config import Address
from mesh_discovery._http import serving_http
from mesh_listening import HTTP_LIMITS
from mesh_testkit import until

Start = Callable[..., Awaitable[Any]]
IDLE = 1000


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def idle(address: str, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    host, _, port = address.rpartition(":")
    held = []
    try:
        for _ in range(count):
            each = socket.create_connection((host, int(port)))
            held.append(each)
            with contextlib.suppress(OSError):
                each.sendall(said)
        yield held
    finally:
        for each in held:
            each.close()


async def closed(held: list[socket.socket]) -> None:
    loop = asyncio.get_running_loop()
    for each in held:
        each.setblocking(False)
        with contextlib.suppress(ConnectionError):
            while await loop.sock_recv(each, 65536):
                pass


async def get(url: str, *, source: str) -> int:
    connector = aiohttp.TCPConnector(local_addr=(source, 0))
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.get(url) as response:
            await response.read()
            return response.status


def told(plane: Any, message: str) -> dict[tuple[str, str], dict[str, Any]]:
    lines = [json.loads(line) for line in plane.process.output if line.startswith("{")]
    found = [line for line in lines if line["msg"] == message]
    by_name = {(line["listener"], line["reason"]): line for line in found}
    assert len(found) == len(by_name), "told once"
    return by_name


async def test_a_thousand_idle_connections_on_each_port_keep_nobody_out_and_are_told_of(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    ports = (plane.http, plane.monitoring, plane.grpc, plane.secure_grpc)
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(idle(port, IDLE))
        assert await get(f"http://{plane.http}/ready", source="127.0.0.2") == 200
        assert await get(f"http://{plane.monitoring}/version", source="127.0.0.2") == 200
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.ssl_target_name_override", "localhost"),
        ]
        root = (plane.ca_dir / "root-cert.pem").read_bytes()
        credentials = grpc.ssl_channel_credentials(root)
        for channel in (
            grpc.aio.insecure_channel(plane.grpc, options),
            grpc.aio.secure_channel(plane.secure_grpc, credentials, options),
        ):
            async with channel:
                await asyncio.wait_for(channel.channel_ready(), 60)
        expected = {
            (plane.http, "too many of one peer"),
            (plane.monitoring, "too many of one peer"),
            *((port, "said nothing") for port in ports),
        }
        await eventually(
            lambda: _is(expected, told(plane, "refusing connections")), what="refusing begins"
        )
        ended = await eventually(
            lambda: _is(expected, told(plane, "no longer refusing connections")),
            what="refusing ends",
        )
    assert ended[plane.grpc, "said nothing"]["refused"] == IDLE
    assert ended[plane.http, "too many of one peer"]["peers"] == "127.0.0.1 (488)"
    page = await plane.get("/metrics")
    refused = "mesh_listener_connections_refused_total"
    assert f'{refused}{{listener="{plane.http}",reason="peer_full"}} 488.0' in page
    assert f'{refused}{{listener="{plane.grpc}",reason="no_first_byte"}} {IDLE}.0' in page
    for port in ports:
        assert f'mesh_listener_connections_open{{listener="{port}"}}' in page


async def _is(expected: set[tuple[str, str]], found: dict[Any, Any]) -> dict[Any, Any] | None:
    return found if found.keys() == expected else None


async def answer(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * 100_000)


@pytest.fixture
def app() -> web.Application:
    app = web.Application()
    app.router.add_get("/", answer)
    return app


HERE = Address(host="127.0.0.1", port=0, flag="--http-addr")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "said nothing"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", "headers took too long"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 200, "took nothing of what was sent"),
    ],
)
async def test_who_is_slow_is_ended_and_others_are_served(
    app: web.Application, caplog: pytest.LogCaptureFixture, said: bytes, why: str
) -> None:
    limits = HTTP_LIMITS._replace(first_byte_s=0.3, handshake_s=0.3, stalled_s=0.3)
    async with serving_http(app, HERE, limits=limits) as address:
        with idle(address, 100, said) as held:
            assert await get(f"http://{address}/", source="127.0.0.2") == 200
            if why == "took nothing of what was sent":
                await until(lambda: caplog.records, what="a word in the log")
            await closed(held)
            assert await get(f"http://{address}/", source="127.0.0.2") == 200
    begins = [vars(r)["reason"] for r in caplog.records if r.message == "refusing connections"]
    assert begins == [why]


async def test_a_connection_between_requests_ends_when_its_time_is_over(
    app: web.Application,
) -> None:
    limits = HTTP_LIMITS._replace(idle_s=0.2, handshake_s=0.1)
    async with serving_http(app, HERE, limits=limits) as address:
        with idle(address, 10, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as held:
            await closed(held)
