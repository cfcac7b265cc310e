"""Subscribers that do not read: what they do to others, and what becomes of them."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_listening import Reason
from mesh_sds import SdsConfig, TlsCertificate, serving
from mesh_sds.testing import FakeSecrets, subscriber
from mesh_testkit import PATIENCE_S, until
from mesh_testkit.http2 import Http2Client, connected
from xds_server import type_urls

PATH = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
DEAF = 100


def certificate(number: int) -> TlsCertificate:
    return TlsCertificate(chain_pem=b"chain %d" % number, private_key_pem=b"key")


async def ask(client: Http2Client, name: str) -> int:
    """Open a stream that asks for a secret."""
    request = discovery_pb2.DiscoveryRequest(
        type_url=type_urls.SECRET, node=base_pb2.Node(id="deaf"), resource_names=[name]
    )
    return await client.open(PATH, request.SerializeToString())


@pytest.mark.parametrize("connections", [1, DEAF], ids=["one connection", "a connection each"])
async def test_a_hundred_streams_that_are_not_read_delay_no_other(
    socket_path: Path, secrets: FakeSecrets, connections: int
) -> None:
    secrets.set(default=certificate(0))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            serving(SdsConfig(socket_path=socket_path), secrets)
        )
        for _ in range(connections):
            deaf = await stack.enter_async_context(connected(f"unix:{socket_path}", window=0))
            for _ in range(DEAF // connections):
                await ask(deaf, "default")
        await until(lambda: len(server.subscribers()) == DEAF, what="every stream")
        reader = await stack.enter_async_context(subscriber(socket_path))
        await reader.ask("default")
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).secrets == {"default": b"chain 0"}
            for number in range(1, 20):
                secrets.set(default=certificate(number))
                assert (await reader.read()).secrets == {"default": b"chain %d" % number}
        assert server.port.refused == {}


@pytest.mark.parametrize("responses", [0, 1], ids=["its first answer", "a push"])
async def test_a_subscriber_that_does_not_read_is_closed_logged_once_and_counted(
    socket_path: Path, secrets: FakeSecrets, caplog: pytest.LogCaptureFixture, responses: int
) -> None:
    secrets.set(default=certificate(0))
    config = SdsConfig(socket_path=socket_path, send_timeout_s=2.0)
    async with serving(config, secrets) as server:
        probe = await ask_once(socket_path)
        async with (
            subscriber(socket_path) as reader,
            connected(f"unix:{socket_path}", window=responses * (probe + 5)) as deaf,
        ):
            deaf.reads = False
            stream = await ask(deaf, "default")
            if responses:
                async with asyncio.timeout(PATIENCE_S):
                    await deaf.receive(stream)
            await reader.ask("default")
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
                secrets.set(default=certificate(1))
                assert (await reader.read()).secrets == {"default": b"chain 1"}
                await deaf.closed.wait()
            await until(lambda: len(server.subscribers()) == 1, what="the end of its stream")
            secrets.set(default=certificate(2))
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.read()).secrets == {"default": b"chain 2"}
        assert server.port.refused == {Reason.NOT_READ: 1}
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.message for record in records] == ["client closed, it does not read"]
    assert "it has not read for too long" in vars(records[0])["reason"]


async def ask_once(socket_path: Path) -> int:
    """How many bytes the answer has."""
    async with connected(f"unix:{socket_path}", window=1 << 20) as client:
        async with asyncio.timeout(PATIENCE_S):
            return len(await client.receive(await ask(client, "default")))
