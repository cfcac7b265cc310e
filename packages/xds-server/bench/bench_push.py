"""Pushing: to a thousand clients, one resource of ten thousand, a storm, and a steady trickle.

Run as a script. The server runs in a process of its own, so that its time and memory are its
own; the clients run in this one, on the same machine, which has its part in the times.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from xds_server import (
    Client,
    Generated,
    Listener,
    PlainListener,
    PushRequest,
    Resource,
    ServerConfig,
    TlsListener,
    Watch,
    XdsServer,
    content_version,
    server_context,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import ADS_DELTA, ADS_SOTW, admit_all

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


class Clusters:
    """Clusters of a given number and size, generated once for everybody."""

    def __init__(self, number: int, size: int) -> None:
        self._bodies = {f"cluster-{n}": os.urandom(size - 12) for n in range(number)}
        self.changes = 0
        self.generated = self._generate()

    def change(self) -> None:
        """Change one of them; it tells when."""
        self.changes += 1
        first = next(iter(self._bodies))
        self._bodies[first] = self._bodies[first][:-16] + f"{time.monotonic():016.6f}".encode()
        self.generated = self._generate(changed=first)

    def _generate(self, changed: str | None = None) -> Generated:
        if changed is None:
            self._resources = {name: self._resource(name) for name in self._bodies}
        else:
            self._resources = {**self._resources, changed: self._resource(changed)}
        return Generated(resources=tuple(self._resources.values()))

    def _resource(self, name: str) -> Resource:
        head = b"\x0a" + bytes([len(name)]) + name.encode()
        pad = b"\xaa\x06" + _length(len(self._bodies[name])) + self._bodies[name]  # field 101
        body = head + pad
        return Resource(name=name, type_url=types.CLUSTER, body=body, version=content_version(body))

    def generate(
        self, _client: Client[None], _watch: Watch, _push: PushRequest | None
    ) -> Generated:
        return self.generated


def _length(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def rss_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def listener(certificate: Path | None) -> Listener:
    """Where to listen: with TLS if there is a file with a certificate and its key."""
    if certificate is None:
        return PlainListener()
    context = server_context(certificate_chain=certificate, private_key=certificate)
    return TlsListener(context=lambda: context)


def trusting(certificate: Path | None) -> grpc.ChannelCredentials | None:
    return None if certificate is None else grpc.ssl_channel_credentials(certificate.read_bytes())


async def serve(number: int, size: int, *, certificate: Path | None) -> None:
    """The server's process: answers commands on stdin with a line of JSON each."""
    gc.freeze()  # as mesh-discovery does: what is loaded by now stays,
    gc.set_threshold(20_000, 50, 1000)  # and what connects is not looked at again and again
    clusters = Clusters(number, size)
    server: XdsServer[None] = XdsServer(
        {types.CLUSTER: clusters},
        admit=admit_all,
        config=ServerConfig(trim_memory_after_s=2.0),
        build=lambda _request: clusters.change(),
    )
    server.set_ready()
    async with serving(server, [listener(certificate)]) as bound:
        print(json.dumps({"address": bound.addresses[0]}), flush=True)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while command := (await reader.readline()).strip():
            if command == b"push":
                server.push_now(PushRequest())
            elif command == b"notify":
                server.notify(PushRequest())
            usage = resource.getrusage(resource.RUSAGE_SELF)
            answer = {
                "at": time.monotonic(),
                "cpu": usage.ru_utime + usage.ru_stime,
                "rss_kb": rss_kb(),
                "clients": len(server.clients()) if command == b"look" else None,
            }
            print(json.dumps(answer), flush=True)


class Server:
    """The server's process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.address = ""
        self.credentials: grpc.ChannelCredentials | None = None

    async def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer

    async def tell(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        return await self.read()


@asynccontextmanager
async def server_process(
    number: int,
    size: int,
    *,
    environment: Mapping[str, str] | None = None,
    certificate: Path | None = None,
) -> AsyncIterator[Server]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        *("--serve", str(number), str(size)),
        *(() if certificate is None else ("--certificate", str(certificate))),
        env={**os.environ, **(environment or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    server = Server(process)
    server.credentials = trusting(certificate)
    server.address = (await server.read())["address"]
    try:
        yield server
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


class Stream:
    """One client: takes what comes and accepts it, without looking inside."""

    def __init__(self, server: Server, number: int, *, delta: bool) -> None:
        if server.credentials is None:
            self._channel = grpc.aio.insecure_channel(server.address, options=OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(
                server.address, server.credentials, options=OPTIONS
            )
        self._call: Any = self._channel.stream_stream(ADS_DELTA if delta else ADS_SOTW, None, None)(
            None
        )
        self._number = number
        self._kind: Any = (
            discovery_pb2.DeltaDiscoveryRequest if delta else discovery_pb2.DiscoveryRequest
        )
        self.bytes = 0
        self.last = b""

    async def subscribe(self) -> None:
        node = base_pb2.Node(id=f"node-{self._number}")
        request = self._kind(type_url=types.CLUSTER, node=node)
        await self._call.write(request.SerializeToString())

    async def take(self) -> float:
        """The next response, accepted; when it came."""
        data = await self._call.read()
        at = time.monotonic()
        self.bytes = len(data)
        self.last = data
        nonce = _nonce(data)
        request = self._kind(type_url=types.CLUSTER, response_nonce=nonce)
        await self._call.write(request.SerializeToString())
        return at

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close(None)


def _nonce(data: bytes) -> str:
    """The nonce, found near the end, where this server writes it."""
    at = data.rindex(b"-", 0, len(data))
    tail = data[-80:]
    start = tail.index(b"\x2a") if b"\x2a" in tail else 0
    while start >= 0:
        length = tail[start + 1]
        nonce = tail[start + 2 : start + 2 + length]
        if len(nonce) == length and b"-" in nonce and nonce.isascii() and at:
            return nonce.decode()
        start = tail.index(b"\x2a", start + 1)
    raise ValueError("no nonce")


async def connect(server: Server, number: int, *, delta: bool = False) -> list[Stream]:
    streams = [Stream(server, n, delta=delta) for n in range(number)]
    for group in range(0, number, 100):
        some = streams[group : group + 100]
        await asyncio.gather(*(stream.subscribe() for stream in some))
        await asyncio.gather(*(stream.take() for stream in some))
    return streams


async def close(streams: list[Stream]) -> None:
    """Disconnect; the list is emptied, as a channel's connection ends with the channel object."""
    await asyncio.gather(*(stream.close() for stream in streams))
    streams.clear()


async def thousand_clients(clients: int) -> None:
    async with server_process(100, 1000) as server:
        before = await server.tell("look")
        streams = await connect(server, clients)
        await asyncio.sleep(0.5)
        idle = await server.tell("look")
        for _ in range(3):
            pushed = await server.tell("push")
            came = await asyncio.gather(*(stream.take() for stream in streams))
            after = await server.tell("look")
            report(
                f"push to {clients} clients, {streams[0].bytes // 1000} kB each",
                last_s=max(came) - pushed["at"],
                median_s=statistics.median(came) - pushed["at"],
                server_cpu_s=after["cpu"] - pushed["cpu"],
            )
        await asyncio.sleep(0.5)
        busy = await server.tell("look")
        await close(streams)
        report(
            "server memory",
            empty_mb=before["rss_kb"] / 1000,
            kb_a_client=(idle["rss_kb"] - before["rss_kb"]) / clients,
            kb_a_client_after_pushes=(busy["rss_kb"] - before["rss_kb"]) / clients,
        )


async def one_of_many(number: int) -> None:
    for delta in (False, True):
        async with server_process(number, 200) as server:
            started = time.monotonic()
            (stream,) = await connect(server, 1, delta=delta)
            first = time.monotonic() - started
            first_bytes = stream.bytes
            pushed = await server.tell("push")
            at = await stream.take()
            report(
                f"{number} resources, {'delta' if delta else 'state of the world'}",
                first_s=first,
                first_bytes=first_bytes,
                one_changed_s=at - pushed["at"],
                one_changed_bytes=stream.bytes,
            )
            await stream.close()


async def storm(clients: int) -> None:
    async with server_process(100, 1000) as server:
        before = await server.tell("look")
        streams = [Stream(server, n, delta=False) for n in range(clients)]
        started = time.monotonic()
        await asyncio.gather(*(stream.subscribe() for stream in streams))
        came = await asyncio.gather(*(stream.take() for stream in streams))
        after = await server.tell("look")
        report(
            f"{clients} clients connect at once",
            last_s=max(came) - started,
            server_cpu_s=after["cpu"] - before["cpu"],
        )
        await close(streams)


async def trickle(seconds: float, clients: int) -> None:
    async with server_process(20, 500) as server:
        streams = await connect(server, clients)
        delays: list[float] = []

        async def follow(stream: Stream) -> None:
            while True:
                at = await stream.take()
                changed_at = [part for part in _changed_at(stream.last) if part]
                delays.append(at - changed_at[0])

        followers = [asyncio.create_task(follow(stream)) for stream in streams]
        ends = time.monotonic() + seconds
        changes = 0
        while time.monotonic() < ends:
            await server.tell("push")
            changes += 1
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        for follower in followers:
            follower.cancel()
        await asyncio.wait(followers)
        delays.sort()
        report(
            f"{changes} changes at 10/s to {clients} clients",
            p50_ms=1000 * delays[len(delays) // 2],
            p99_ms=1000 * delays[len(delays) * 99 // 100],
            received=len(delays),
        )
        await close(streams)


def _changed_at(data: bytes) -> list[float]:
    """When the first resource was changed, which the end of its body says."""
    resource_ = discovery_pb2.DiscoveryResponse.FromString(data).resources[0]
    return [float(resource_.value[-16:])]


def report(what: str, **figures: float) -> None:
    print(what + ": " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))


async def main(arguments: argparse.Namespace) -> None:
    await thousand_clients(arguments.clients)
    await one_of_many(arguments.resources)
    await storm(arguments.clients)
    await trickle(60.0 if arguments.full else arguments.seconds, 100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--resources", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--full", action="store_true", help="a minute of changes rather than --seconds"
    )
    parser.add_argument("--serve", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--certificate", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    work = (
        serve(*options.serve, certificate=options.certificate) if options.serve else main(options)
    )
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)
