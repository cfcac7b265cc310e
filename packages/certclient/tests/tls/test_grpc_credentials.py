"""Mutual TLS on grpc.aio before and after rotations."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest
from cryptography import x509

from certclient import (
    Certificates,
    RotationConfig,
    SpiffeId,
    TrustConfig,
    authorize_namespace,
    grpc_authorizer,
    grpc_channel,
    grpc_server_credentials,
    keep_fresh,
    with_trust,
)
from certclient.testing import FakeAuthority

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]

SERVER = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/server")


@pytest.fixture
async def client(
    config: RotationConfig, real_authority: FakeAuthority
) -> AsyncIterator[Certificates]:
    async with keep_fresh(config, real_authority) as certificates:
        await certificates.wait_for_first()
        yield certificates


@pytest.fixture
async def server(
    config: RotationConfig, real_authority: FakeAuthority
) -> AsyncIterator[Certificates]:
    async with keep_fresh(replace(config, spiffe_id=SERVER), real_authority) as certificates:
        await certificates.wait_for_first()
        yield certificates


async def show_peer(request: bytes, context: "Context") -> bytes:
    return request + b"".join(context.auth_context()["x509_pem_cert"])


async def show_twice(request: bytes, context: "Context") -> AsyncIterator[bytes]:
    for _ in range(2):
        yield await show_peer(request, context)


@asynccontextmanager
async def serving(
    certificates: Certificates, authorize: Callable[[SpiffeId], bool] | None = None
) -> AsyncIterator[str]:
    server = grpc.aio.server(interceptors=[grpc_authorizer(certificates, authorize)])
    handlers = {
        "Show": grpc.unary_unary_rpc_method_handler(show_peer),
        "Twice": grpc.unary_stream_rpc_method_handler(show_twice),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Peer", handlers),))
    credentials = await grpc_server_credentials(certificates)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def until_federated(certificates: Certificates) -> AsyncIterator[None]:
    async for certificate in certificates.changes():
        if certificate is not None and certificate.federated_bundles:
            break
    yield


async def call(channel: grpc.aio.Channel) -> bytes:
    call = channel.unary_unary("/Peer/Show", request_serializer=bytes, response_deserializer=bytes)
    answer: bytes = await call(b"")
    return answer


def stream(channel: grpc.aio.Channel) -> AsyncIterable[bytes]:
    call = channel.unary_stream(
        "/Peer/Twice", request_serializer=bytes, response_deserializer=bytes
    )
    answers: AsyncIterable[bytes] = call(b"")
    return answers


async def shown(certificates: Certificates, target: str) -> int:
    """Call over a new connection; return the serial that the server saw."""
    async with grpc_channel(certificates, target, authorize=lambda peer: peer == SERVER) as channel:
        answer = await call(channel)
    return x509.load_pem_x509_certificate(answer).serial_number


async def test_both_ends_follow_rotations_of_leaf_and_root(
    server: Certificates, client: Certificates, real_authority: FakeAuthority
) -> None:
    async with asyncio.timeout(60), serving(server, lambda _: True) as target:
        for change_root in (False, False, True):
            if change_root:
                real_authority.change_root()
            await server.renew()
            renewed = await client.renew()
            assert await shown(client, target) == renewed.serial


async def test_an_open_channel_lives_through_a_rotation(
    server: Certificates, client: Certificates
) -> None:
    async with (
        asyncio.timeout(60),
        serving(server, lambda _: True) as target,
        grpc_channel(client, target, authorize=lambda _: True) as channel,
    ):
        for _ in range(3):
            assert len([each async for each in stream(channel)]) == 2
            await client.renew()
            await server.renew()


async def test_a_caller_that_may_not_call_is_refused(
    server: Certificates, client: Certificates
) -> None:
    async with (
        asyncio.timeout(60),
        serving(server, lambda peer: peer == SERVER) as target,
        grpc_channel(client, target, authorize=lambda _: True) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(channel)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in stream(channel):
                pass
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_caller_of_another_trust_domain_is_refused_whatever_its_namespace(
    server: Certificates, config: RotationConfig, real_authority: FakeAuthority, tmp_path: Path
) -> None:
    root = tmp_path / "root.pem"
    root.write_bytes(real_authority.root_pem)
    elsewhere = SpiffeId.parse("spiffe://elsewhere.example/ns/shop/sa/cart")
    async with (
        asyncio.timeout(60),
        # The same root: an authority for two trust domains, or a root that was added to ours.
        keep_fresh(replace(config, spiffe_id=elsewhere), real_authority) as foreign,
        serving(server, authorize_namespace("shop")) as target,
    ):
        await foreign.wait_for_first()
        trusting = TrustConfig(federated=(("cluster.local", root),))
        async with (
            with_trust(foreign, trusting) as theirs,
            until_federated(theirs),
            grpc_channel(theirs, target, trust_domains=["cluster.local"]) as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(channel)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        async with grpc_channel(foreign, target) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(channel)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_that_is_somebody_else_is_left(
    server: Certificates, client: Certificates
) -> None:
    async with (
        asyncio.timeout(60),
        serving(server, lambda _: True) as target,
        grpc_channel(client, target, authorize=lambda peer: peer != SERVER) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(channel)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_channel_ends_though_its_server_never_answers_the_handshake(
    client: Certificates,
) -> None:
    connected = asyncio.Event()
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()
        ended.set()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    host, port = silent.sockets[0].getsockname()
    async with asyncio.timeout(60), silent:
        async with grpc_channel(client, f"{host}:{port}", authorize=lambda _: True) as channel:
            asking = asyncio.create_task(call(channel))
            await connected.wait()
            asking.cancel()
            await asyncio.wait([asking])
        await ended.wait()
