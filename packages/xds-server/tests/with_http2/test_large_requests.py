"""Large requests of one caller, while they are received: what they take, and what others wait."""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.x509 import UniformResourceIdentifier
from envoy.service.discovery.v3 import discovery_pb2

import server_alone
from mesh_testkit.http2 import connected, gzip_bomb
from server_pki import Pki
from xds_server import type_urls as types
from xds_server.testing import ADS_SOTW

MANY = 24
HUGE = 8_400_000
MOST_MB = 100
"""Room for 32 MiB of one holder, and the server's own work; all of it would be 200."""
PATIENCE_S = 120
UNIMPLEMENTED = str(grpc.StatusCode.UNIMPLEMENTED.value[0])


def named(node: str, names: int) -> bytes:
    request = discovery_pb2.DiscoveryRequest(type_url=types.CLUSTER)
    request.node.id = node
    request.resource_names.extend(f"outbound|80||{each:07}".ljust(60, "x") for each in range(names))
    data: bytes = request.SerializeToString()
    return struct.pack(">BI", 0, len(data)) + data


class Alone:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.address = address
        self._pid = process.pid
        self._before_mb = self._most_mb()

    def _most_mb(self) -> float:
        status = Path(f"/proc/{self._pid}/status").read_text()
        (most,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(most.split()[1]) / 1024

    def grown_mb(self) -> float:
        """Return how much more memory it has had at any time than at its start."""
        return self._most_mb() - self._before_mb


@asynccontextmanager
async def running_alone(*arguments: Path) -> AsyncIterator[Alone]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(server_alone.__file__), *map(str, arguments)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Alone(process, (await process.stdout.readline()).decode().strip())
    finally:
        process.stdin.close()
        await process.wait()


Connect = Callable[..., Any]


async def hog(stack: AsyncExitStack, server: Alone, connect: Connect) -> list[asyncio.Task[None]]:
    """Send many huge requests, each but for its last byte."""
    tasks = []
    for _ in range(MANY):
        client = await stack.enter_async_context(connect(server.address, window=1 << 20))
        stream = await client.begin(ADS_SOTW)
        unfinished = struct.pack(">BI", 0, HUGE) + bytes(HUGE - 1)
        tasks.append(asyncio.create_task(client.send_as_let(stream, unfinished)))
        stack.push_async_callback(ended, tasks[-1])
    return tasks


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def is_answered(server: Alone, request: bytes, connect: Connect) -> bool:
    async with connect(server.address, window=1 << 20) as client:
        stream = await client.begin(ADS_SOTW)
        await client.send_as_let(stream, request)
        return bool(await client.receive(stream))


def tls(pki: Pki, chain: Path, key: Path) -> Connect:
    context = ssl.create_default_context(cadata=pki.root_pem.decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(chain, key)
    return partial(connected, context=context)


@pytest.fixture(params=["address", "identity"])
async def scene(
    request: pytest.FixtureRequest, pki: Pki
) -> AsyncIterator[tuple[Alone, Connect, Connect]]:
    """A server, and how one caller and another connect to it: they are distinguished by that."""
    if request.param == "address":
        async with running_alone() as server:
            yield (
                server,
                partial(connected, source="127.0.0.2"),
                partial(connected, source="127.0.0.3"),
            )
        return
    roots = pki.directory / "roots.pem"
    roots.write_bytes(pki.root_pem)
    other = pki.issue("other", UniformResourceIdentifier("spiffe://mesh/ns/a/sa/other"))
    async with running_alone(pki.server_chain, pki.server_key, roots) as server:
        yield server, tls(pki, pki.client_chain, pki.client_key), tls(pki, *other)


async def test_huge_requests_of_one_caller_take_bounded_memory_and_hold_up_no_other(
    scene: tuple[Alone, Connect, Connect],
) -> None:
    server, caller, other = scene
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
        sending = await hog(stack, server, caller)
        assert await is_answered(server, named("other", 0), other)
        assert await is_answered(server, named("large", 10_000), other)
        # The first that have sent all they will give way to the next ones in the end.
        waiting = set(sending)
        while len(waiting) > MANY // 2:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert server.grown_mb() < MOST_MB


async def test_large_requests_of_one_caller_are_all_answered(
    scene: tuple[Alone, Connect, Connect],
) -> None:
    server, caller, _ = scene
    async with asyncio.timeout(PATIENCE_S):
        answered = await asyncio.gather(
            *(is_answered(server, named(f"{each}", 100_000), caller) for each in range(10))
        )
    assert answered == [True] * 10


async def test_compressed_requests_are_refused_and_not_unpacked() -> None:
    bomb = gzip_bomb(15_000_000)
    connect = partial(connected, source="127.0.0.2")
    async with running_alone() as server, asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
        for _ in range(MANY):
            client = await stack.enter_async_context(connect(server.address, window=1 << 20))
            stream = await client.begin(ADS_SOTW, {"grpc-encoding": "gzip"})
            await client.send_as_let(stream, bomb)
            await client.answered.wait()
            assert client.headers[stream]["grpc-status"] == UNIMPLEMENTED
        assert server.grown_mb() < 15
