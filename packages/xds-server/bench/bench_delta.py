"""One change to many delta clients: processor time of the server, a client.

Run as a script. Servers and clients run in processes of their own. In one run, alternating:

- a store of this package, the clients alike; also without the listener in front of gRPC;
- gRPC for Python alone, which nothing written in Python on top of it can be below: a message of the
  same size written to every stream, and the answer to it read and thrown away;
- with `--go`, go-control-plane (`peers/`, needs `go`): its cache of snapshots, and its linear one;
- with `--peer COMMAND`, any other server that prints a line of JSON with its `address` at the
  start, and answers the lines `push` and `look` with `cpu`, its processor time in seconds, and
  `at`, the monotonic clock.

With `--server-environment` the servers in Python run as mesh-discovery does, gRPC alone too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_testkit.measurements import FLOOR, Row, tell
from xds_server import (
    SERVER_ENVIRONMENT,
    LinearStore,
    PlainListener,
    PushRequest,
    Resource,
    Snapshot,
    SnapshotStore,
    XdsServer,
    content_version,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import ADS_DELTA, admit_all
from xds_server.transport._services import XdsHandler

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


def resource_number(number: int, *, change: int = 0) -> Resource:
    """Some 200 bytes that no client looks into."""
    name = f"resource-{number}"
    body = f"{name}/{change:08}".ljust(200, "x").encode()
    return Resource(name=name, type_url=types.ENDPOINT, body=body, version=content_version(body))


class Snapshots:
    """One snapshot, replaced as a whole."""

    def __init__(self, number: int) -> None:
        self._resources = [resource_number(n) for n in range(number)]
        self._changes = 0
        self.store: Any = SnapshotStore[None](group_of=lambda _client: "all")
        self.store.set("all", Snapshot.build(self._resources))

    def change(self) -> PushRequest:
        self._changes += 1
        self._resources[0] = resource_number(0, change=self._changes)
        request: PushRequest = self.store.set("all", Snapshot.build(self._resources))
        return request


class Linear:
    """Single resources."""

    def __init__(self, number: int) -> None:
        self._changes = 0
        self.store: Any = LinearStore(types.ENDPOINT, [resource_number(n) for n in range(number)])

    def change(self) -> PushRequest:
        self._changes += 1
        request: PushRequest = self.store.update(resource_number(0, change=self._changes))
        return request


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def collect_garbage_rarely() -> None:
    """As mesh-discovery does; what connects is not looked at again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 1000)


async def commands() -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while command := (await reader.readline()).strip():
        yield command


def say(**log_facts: object) -> None:
    print(json.dumps(log_facts), flush=True)


def tell_time() -> None:
    say(cpu=cpu_s(), at=time.monotonic())


async def serve_store(kind: str, number: int, *, bare: bool) -> None:
    stores = Snapshots(number) if kind == "snapshot" else Linear(number)
    server: XdsServer[None] = XdsServer({types.ENDPOINT: stores.store}, admit=admit_all)
    server.set_ready()
    async with AsyncExitStack() as stack:
        if bare:
            address = await stack.enter_async_context(without_acceptor(server))
        else:
            bound = await stack.enter_async_context(serving(server, [PlainListener()]))
            address = bound.addresses[0]
        say(address=address)
        async for command in commands():
            tell_time()
            if command == b"push":
                server.push_now(stores.change())


@asynccontextmanager
async def without_acceptor(server: XdsServer[None]) -> AsyncIterator[str]:
    """GRPC listens itself, rather than behind the listener that counts connections."""
    grpc_server = grpc.aio.server(options=[("grpc.max_concurrent_streams", 100_000)])
    grpc_server.add_generic_rpc_handlers((XdsHandler(server),))
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    async with server.running():
        await grpc_server.start()
        yield f"127.0.0.1:{port}"
        await grpc_server.stop(None)


async def serve_bare(number: int) -> None:
    """GRPC with nothing on top: every stream gets what the store would send."""
    streams: set[asyncio.Event] = set()
    response: Any = discovery_pb2.DeltaDiscoveryResponse(type_url=types.ENDPOINT, nonce="1")
    response.resources.add(name="resource-0").resource.value = b"x" * 200
    one = response.SerializeToString()
    for _ in range(number - 1):
        response.resources.add(name="resource-n").resource.value = b"x" * 200
    everything = response.SerializeToString()

    async def serve(_requests: object, context: Any) -> None:
        changed = asyncio.Event()
        streams.add(changed)

        async def read() -> None:
            while isinstance(await context.read(), bytes):
                pass

        reader = asyncio.create_task(read())
        try:
            await context.write(everything)
            while True:
                await changed.wait()
                changed.clear()
                await context.write(one)
        finally:
            streams.discard(changed)
            reader.cancel()

    service, _, method = ADS_DELTA.removeprefix("/").rpartition("/")
    make_handler: Any = grpc.stream_stream_rpc_method_handler
    handlers = {method: make_handler(serve)}
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", 100_000)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    say(address=f"127.0.0.1:{port}")
    async for command in commands():
        tell_time()
        if command == b"push":
            for changed in streams:
                changed.set()
    await server.stop(None)


class Stream:
    """A client that watches everything, by its names, and accepts what comes."""

    def __init__(self, address: str, number: int) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._call: Any = self._channel.stream_stream(ADS_DELTA, None, None)(None)
        self._number = number

    async def subscribe(self, names: Sequence[str]) -> None:
        request: Any = discovery_pb2.DeltaDiscoveryRequest(
            type_url=types.ENDPOINT, node=base_pb2.Node(id=f"node-{self._number}")
        )
        request.resource_names_subscribe.extend(names)
        await self._call.write(request.SerializeToString())

    async def take(self) -> float:
        data = await self._call.read()
        at = time.monotonic()
        response: Any = discovery_pb2.DeltaDiscoveryResponse.FromString(data)
        ack = discovery_pb2.DeltaDiscoveryRequest(
            type_url=types.ENDPOINT, response_nonce=response.nonce
        )
        await self._call.write(ack.SerializeToString())
        return at

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(None)


async def be_clients(address: str, clients: int, number: int) -> None:
    """The clients' process: says when all have everything, and then when all have each push."""
    names = [f"resource-{n}" for n in range(number)]
    streams = [Stream(address, n) for n in range(clients)]
    for group in range(0, clients, 100):
        some = streams[group : group + 100]
        await asyncio.gather(*(stream.subscribe(names) for stream in some))
        await asyncio.gather(*(stream.take() for stream in some))
    say(ready=True)
    async for _ in commands():
        came = await asyncio.gather(*(stream.take() for stream in streams))
        say(last=max(came), median=statistics.median(came))
    await asyncio.gather(*(stream.close() for stream in streams))


class Process:
    """A process that is asked and answers in lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")

    async def query(self, command: str) -> dict[str, Any]:
        self.tell(command)
        return await self.read()


@asynccontextmanager
async def process(
    *command: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    started = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        yield Process(started)
    finally:
        assert started.stdin is not None
        started.stdin.close()
        await started.wait()


class Measured:
    """A server with its clients, connected and at rest."""

    def __init__(self, what: str, server: Process, clients: Process) -> None:
        self.what = what
        self._server = server
        self._clients = clients
        self.cpu_us: list[float] = []
        self.last_ms: list[float] = []

    async def push(self, clients: int) -> None:
        self._clients.tell("take")
        began = await self._server.query("push")
        took = await self._clients.read()
        await asyncio.sleep(0.3)  # the last answers have been read by then
        ended = await self._server.query("look")
        self.cpu_us.append((ended["cpu"] - began["cpu"]) / clients * 1e6)
        self.last_ms.append((took["last"] - began["at"]) * 1e3)

    def report(self, beside: Sequence[Measured]) -> None:
        print(
            f"{self.what}: {statistics.median(self.cpu_us):.0f} us of processor time a client"
            f" ({min(self.cpu_us):.0f}-{max(self.cpu_us):.0f}),"
            f" the last has it after {statistics.median(self.last_ms):.0f} ms"
        )
        for other in beside:
            ratios = [ours / theirs for ours, theirs in zip(self.cpu_us, other.cpu_us, strict=True)]
            print(
                f"    {statistics.median(ratios):.2f} times {other.what}, by round"
                f" ({min(ratios):.2f}-{max(ratios):.2f})"
            )


def build_peers(directory: Path) -> Path:
    """Build go-control-plane's server."""
    if shutil.which("go") is None:
        sys.exit("go-control-plane is built with Go, and there is no `go` on PATH")
    peers = directory / "peers"
    source = Path(__file__).parent / "peers"
    subprocess.run(["go", "build", "-o", peers, "."], cwd=source, check=True)
    return peers


async def measure(arguments: argparse.Namespace) -> None:
    number, clients = str(arguments.resources), str(arguments.clients)
    this = (sys.executable, __file__)
    environment = {**SERVER_ENVIRONMENT, **os.environ} if arguments.server_environment else None
    servers = {
        "gRPC alone": (*this, "--serve", "bare", number),
        "SnapshotStore": (*this, "--serve", "snapshot", number),
        "LinearStore": (*this, "--serve", "linear", number),
        "SnapshotStore, no acceptor": (*this, "--serve", "snapshot-bare", number),
        "LinearStore, no acceptor": (*this, "--serve", "linear-bare", number),
    } | {peer: tuple(shlex.split(peer)) for peer in arguments.peer}
    print(f"{clients} delta clients of {number} resources, one of which changes")
    async with AsyncExitStack() as stack:
        beside = ["gRPC alone"]
        if arguments.go:
            peers = str(build_peers(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            for cache in ("snapshot", "linear"):
                beside.append(f"go-control-plane, {cache}")
                servers[beside[-1]] = (peers, cache, number)
        measured = []
        for what, command in servers.items():
            server = await stack.enter_async_context(process(*command, environment=environment))
            address = (await server.read())["address"]
            client = await stack.enter_async_context(
                process(*this, "--connect", address, clients, number)
            )
            await client.read()
            measured.append(Measured(what, server, client))
        for _ in range(arguments.rounds + 1):
            for each in measured:
                await each.push(arguments.clients)
        for each in measured:
            del each.cpu_us[0], each.last_ms[0]  # the first warms up
        for each in measured:
            others = [other for other in measured if other.what in beside]
            each.report([] if each in others else others)
        floor, ours = measured[0], measured[1]
        row = Row("delta push: CPU a client", "us", ours.cpu_us, {FLOOR: floor.cpu_us})
        tell([row])


def main(options: argparse.Namespace) -> Any:
    if options.connect:
        address, clients, number = options.connect
        return be_clients(address, int(clients), int(number))
    if options.serve:
        collect_garbage_rarely()
        kind, number = options.serve
        if kind == "bare":
            return serve_bare(int(number))
        kind, _, bare = kind.partition("-")
        return serve_store(kind, int(number), bare=bool(bare))
    return measure(options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--resources", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--go", action="store_true")
    parser.add_argument("--server-environment", action="store_true")
    parser.add_argument("--peer", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--connect", nargs=3, help=argparse.SUPPRESS)
    work = main(parser.parse_args())
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)
