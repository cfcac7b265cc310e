"""The times of clients that read, beside clients that do not.

Run as a script. The server, those who read and those who do not run in a process each. Phases
without and with those who do not read alternate, so that what the machine does besides has its part
in both; the ratios are of times of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import resource
import statistics
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.settings
from bench_push import Server, _changed_at, close, connect, server_process
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from xds_server import SERVER_ENVIRONMENT
from xds_server import type_urls as types
from xds_server.testing import ADS_SOTW

CLUSTERS = (20, 500)
"""How many, and of how many bytes."""
INTERVAL_S = 0.1
CONNECT_WITHIN_LOOKS = 600
"""A tenth of a second each."""


async def standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def read_changes(address: str, clients: int) -> None:
    """The readers' process: says once a line how long each change took to each client."""
    server = Server.__new__(Server)
    server.address, server.credentials = address, None
    streams = await connect(server, clients)
    took_s: list[float] = []

    async def follow(stream: Any) -> None:
        while True:
            at = await stream.take()
            took_s.append(at - _changed_at(stream.last)[0])

    followers = [asyncio.create_task(follow(stream)) for stream in streams]
    commands = await standard_input()
    print(json.dumps("ready"), flush=True)
    while await commands.readline():
        print(json.dumps(took_s), flush=True)
        took_s.clear()
    for follower in followers:
        follower.cancel()
    await asyncio.wait(followers)
    await close(streams)


async def stall(address: str, streams: int, connections: int) -> None:
    """The process of those who do not read: streams with no room for a byte of their answers."""
    host, _, port = address.rpartition(":")
    writers = []
    for number in range(connections):
        _, writer = await asyncio.open_connection(host, int(port))
        configuration = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        http = h2.connection.H2Connection(configuration)
        http.initiate_connection()
        http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        for each in range(streams // connections):
            _subscribe(http, f"stalled-{number}-{each}")
        writer.write(http.data_to_send())
        await writer.drain()
        writers.append(writer)
    print(json.dumps("ready"), flush=True)
    await (await standard_input()).read()
    for writer in writers:
        writer.close()


def _subscribe(http: h2.connection.H2Connection, node_id: str) -> None:
    stream = http.get_next_available_stream_id()
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": ADS_SOTW,
        ":authority": "server",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    http.send_headers(stream, list(headers.items()))
    node = base_pb2.Node(id=node_id)
    request = discovery_pb2.DiscoveryRequest(type_url=types.CLUSTER, node=node)
    data = request.SerializeToString()
    http.send_data(stream, b"\0" + struct.pack(">I", len(data)) + data)


@asynccontextmanager
async def clients_process(*arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def are_connected(server: Server, number: int) -> None:
    for _ in range(CONNECT_WITHIN_LOOKS):
        if (await server.tell("look"))["clients"] == number:
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"not {number} streams")


async def phase(
    server: Server, readers: asyncio.subprocess.Process, *, seconds: float, name: str
) -> list[float]:
    assert readers.stdin is not None
    assert readers.stdout is not None
    await changes(server, 1.0)  # what comes first after others came or went is not of the rest
    await _times(readers)
    cpu_s = (await server.tell("look"))["cpu"]
    number = await changes(server, seconds)
    cpu_s = (await server.tell("look"))["cpu"] - cpu_s
    took_s = await _times(readers)
    median, late = statistics.median(took_s), percentile(took_s)
    print(
        f"{name}: {number} changes, {len(took_s)} received, median {1000 * median:.1f} ms, "
        f"99 % {1000 * late:.1f} ms, server {1000 * cpu_s / number:.1f} ms of processor a change"
    )
    return took_s


async def changes(server: Server, seconds: float) -> int:
    number = math.ceil(seconds / INTERVAL_S)
    begun = time.monotonic()
    for each in range(number):
        await asyncio.sleep(max(0.0, begun + each * INTERVAL_S - time.monotonic()))
        await server.tell("push")
    await asyncio.sleep(0.5)
    return number


async def _times(readers: asyncio.subprocess.Process) -> list[float]:
    assert readers.stdin is not None
    assert readers.stdout is not None
    readers.stdin.write(b"times\n")
    times: list[float] = json.loads(await readers.stdout.readline())
    return times


def percentile(took_s: list[float]) -> float:
    return statistics.quantiles(took_s, n=100)[98]


async def main(arguments: argparse.Namespace) -> None:
    alone: list[float] = []
    beside: list[float] = []
    stalled, reading = arguments.stalled, arguments.reading
    async with (
        server_process(*CLUSTERS, environment=SERVER_ENVIRONMENT) as server,
        clients_process("--read", server.address, reading) as readers,
    ):
        await are_connected(server, reading)
        await phase(server, readers, seconds=arguments.seconds, name="to warm up")
        for _ in range(arguments.rounds):
            alone += await phase(server, readers, seconds=arguments.seconds, name="without")
            connections = arguments.connections
            async with clients_process("--stall", server.address, stalled, connections):
                await are_connected(server, reading + stalled)
                beside += await phase(server, readers, seconds=arguments.seconds, name="with")
            await are_connected(server, reading)
    print(
        f"{reading} that read beside {stalled} that do not: median "
        f"{statistics.median(beside) / statistics.median(alone):.2f} times, 99 % "
        f"{percentile(beside) / percentile(alone):.2f} times as long as without"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reading", type=int, default=100)
    parser.add_argument("--stalled", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=10, help="of those who do not read")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a phase")
    parser.add_argument("--rounds", type=int, default=2, help="each a phase without and one with")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--stall", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if options.read:
        work = read_changes(options.read[0], int(options.read[1]))
    elif options.stall:
        work = stall(options.stall[0], int(options.stall[1]), int(options.stall[2]))
    else:
        work = main(options)
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)
