"""Handshakes over real sockets, before and after rotations."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from cryptography import x509

from certclient import (
    Certificates,
    RotationConfig,
    SpiffeId,
    client_context,
    keep_fresh,
    server_context,
)
from certclient.testing import FakeAuthority
from mesh_lifecycle.testing import ManualClock

SERVER = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/server")


@pytest.fixture
def clock() -> ManualClock:
    # Real handshakes look at the real clock, so the hand-turned one begins there.
    return ManualClock(time.time())


@pytest.fixture
async def client(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> AsyncIterator[Certificates]:
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await certificates.wait_for_first()
        yield certificates


@pytest.fixture
async def server(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> AsyncIterator[Certificates]:
    config = replace(config, spiffe_id=SERVER)
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await certificates.wait_for_first()
        yield certificates


@asynccontextmanager
async def echoing(context: ssl.SSLContext) -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


@asynccontextmanager
async def connected(
    port: int, context: ssl.SSLContext
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"hello\n")
    return await reader.readline()


def serial_shown(writer: asyncio.StreamWriter) -> int:
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(der).serial_number


async def test_new_connections_see_each_rotation_and_old_ones_live_on(
    server: Certificates, client: Certificates, authority: FakeAuthority
) -> None:
    ours = client_context(client, lambda peer: peer == SERVER)
    async with (
        echoing(server_context(server, lambda peer: peer.namespace == "shop")) as port,
        connected(port, ours) as old,
    ):
        assert await echoed(*old) == b"hello\n"
        shown = {serial_shown(old[1])}
        for change_root in (False, True, False):
            if change_root:
                authority.change_root()
                await client.renew()
            renewed = await server.renew()
            async with connected(port, ours) as new:
                assert await echoed(*new) == b"hello\n"
                assert serial_shown(new[1]) == renewed.serial
                shown.add(renewed.serial)
        assert await echoed(*old) == b"hello\n"
    assert len(shown) == 4


async def test_a_root_that_was_replaced_is_no_longer_trusted(
    server: Certificates, client: Certificates, authority: FakeAuthority
) -> None:
    ours = client_context(client, lambda _: True)
    async with echoing(server_context(server, lambda _: True)) as port:
        async with connected(port, ours) as before:
            assert await echoed(*before) == b"hello\n"
        authority.change_root()
        await client.renew()
        with pytest.raises(ssl.SSLCertVerificationError):
            async with connected(port, ours):
                pass


async def test_a_server_that_is_somebody_else_is_left(
    server: Certificates, client: Certificates
) -> None:
    async with echoing(server_context(server, lambda _: True)) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match=f"{SERVER}, which may not"):
            async with connected(port, client_context(client, lambda peer: peer != SERVER)):
                pass


async def test_a_client_that_may_not_connect_is_cut_off(
    server: Certificates, client: Certificates
) -> None:
    async with (
        echoing(server_context(server, lambda peer: peer == SERVER)) as port,
        connected(port, client_context(client, lambda _: True)) as (reader, writer),
    ):
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            raise OSError if await echoed(reader, writer) == b"" else AssertionError


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_blocking_client_is_served_and_checked_alike(
    server: Certificates, client: Certificates, *, allowed: bool
) -> None:
    ours = client_context(client, lambda _: allowed)

    def ask(port: int) -> bytes:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            ours.wrap_socket(plain, server_hostname="anything") as secure,
        ):
            secure.sendall(b"hello\n")
            return secure.recv(100)

    async with echoing(server_context(server, lambda _: True)) as port:
        if allowed:
            assert await asyncio.to_thread(ask, port) == b"hello\n"
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match="may not connect"):
                await asyncio.to_thread(ask, port)


async def test_nothing_connects_without_a_valid_certificate(
    server: Certificates, client: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.fail(ConnectionError)
    async with echoing(server_context(server, lambda _: True)) as port:
        await clock.advance(3602)
        assert client.latest is None
        ours = client_context(client, lambda _: True)
        with pytest.raises(ssl.SSLError, match="no valid workload certificate"):
            async with connected(port, ours):
                pass
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            pytest.raises(ssl.SSLError, match="no valid workload certificate"),
        ):
            ours.wrap_socket(plain, server_hostname="anything")


async def test_the_protocols_a_program_offers_are_kept_over_a_rotation(
    server: Certificates, client: Certificates
) -> None:
    ours, theirs = client_context(client, lambda _: True), server_context(server, lambda _: True)
    for context in (ours, theirs):
        context.set_alpn_protocols(["h2"])
    async with echoing(theirs) as port:
        for _ in range(2):
            async with connected(port, ours) as (_, writer):
                assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            await server.renew()
