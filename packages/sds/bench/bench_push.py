"""What pushes and reconnects cost, with gRPC accepting and with the peer check in front of it.

    python bench/bench_push.py [--streams 500] [--large-kib 2048] [--only direct|checked]

Clients run in a process of their own, each stream on a connection of its own, as Envoys are. Both
ways are measured alternately, round by round, so that a busy machine slows both alike. Memory is
only printed with `--only`, as one process can't tell which of two ways took it.
"""

import argparse
import asyncio
import multiprocessing
import multiprocessing.connection
import resource
import statistics
import tempfile
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import uvloop

if TYPE_CHECKING:
    import grpc.aio
    from envoy.service.discovery.v3 import discovery_pb2

    from mesh_sds import SdsServer
    from mesh_sds.testing import FakeSecrets

    Call: TypeAlias = grpc.aio.StreamStreamCall[
        discovery_pb2.DiscoveryRequest, discovery_pb2.DiscoveryResponse
    ]

METHOD = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
PUSHES = 200
LARGE_PUSHES = 20
STORMS = 3


class Clients:
    """Streams in their own process, given what to do over a pipe."""

    def __init__(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_clients, args=(theirs,))
        self._process.start()

    async def do(self, *words: object) -> Any:
        self._pipe.send(words)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._pipe.recv)

    async def stop(self) -> None:
        await self.do("stop")
        self._process.join()


def _clients(pipe: multiprocessing.connection.Connection) -> None:
    uvloop.run(_obey(pipe))


async def _obey(pipe: multiprocessing.connection.Connection) -> None:
    streams: dict[str, list[tuple[grpc.aio.Channel, Call]]] = {}
    loop = asyncio.get_running_loop()
    pipe.send("up")
    while True:
        word, *facts = await loop.run_in_executor(None, pipe.recv)
        match word:
            case "connect":
                path, count = facts
                started = time.perf_counter()
                streams[path] = list(await asyncio.gather(*(_connect(path) for _ in range(count))))
                pipe.send(time.perf_counter() - started)
            case "expect":
                (path,) = facts
                pipe.send("ready")
                await asyncio.gather(*(_answer(call) for _, call in streams[path]))
                pipe.send(time.perf_counter())
            case "leave":
                (path,) = facts
                await asyncio.gather(*(channel.close(None) for channel, _ in streams.pop(path)))
                pipe.send("left")
            case _:
                pipe.send("bye")
                return


async def _connect(path: str) -> "tuple[grpc.aio.Channel, Call]":
    import grpc.aio
    from envoy.config.core.v3 import base_pb2
    from envoy.service.discovery.v3 import discovery_pb2

    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = grpc.aio.insecure_channel(f"unix:{path}", options=options)
    call: Call = channel.stream_stream(
        METHOD,
        request_serializer=discovery_pb2.DiscoveryRequest.SerializeToString,
        response_deserializer=discovery_pb2.DiscoveryResponse.FromString,
    )(None)
    node = base_pb2.Node(id="bench")
    await call.write(discovery_pb2.DiscoveryRequest(node=node, resource_names=["default"]))
    await _answer(call)
    return channel, call


async def _answer(call: "Call") -> None:
    from envoy.service.discovery.v3 import discovery_pb2

    response = await call.read()
    assert isinstance(response, discovery_pb2.DiscoveryResponse)
    await call.write(
        discovery_pb2.DiscoveryRequest(
            resource_names=["default"],
            version_info=response.version_info,
            response_nonce=response.nonce,
        )
    )


class Served:
    """One server and how long its clients took for what."""

    def __init__(self, name: str, path: Path, secrets: "FakeSecrets", server: "SdsServer") -> None:
        self.name = name
        self.path = path
        self.secrets = secrets
        self.server = server
        self.rounds = 0

    async def push(self, clients: Clients, size: int) -> float:
        """Seconds from a change until all its subscribers have answered it."""
        from mesh_sds import TlsCertificate

        self.rounds += 1
        chain = b"%08d" % self.rounds * (size // 8)
        await clients.do("expect", str(self.path))
        started = time.perf_counter()
        self.secrets.set(default=TlsCertificate(chain_pem=chain, private_key_pem=b"key " * 60))
        loop = asyncio.get_running_loop()
        ended: float = await loop.run_in_executor(None, clients._pipe.recv)
        return ended - started


def _tell(what: str, name: str, values: list[float]) -> None:
    median, worst = statistics.median(values), max(values)
    print(f"{what:<44} {name:<8} median {median * 1e3:8.2f} ms   worst {worst * 1e3:8.2f} ms")


def _memory_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() // 1024


async def measure(streams: int, large_kib: int, only: str | None) -> None:
    from mesh_sds import AllowedPeers, ConnectionLimits, SdsConfig, TlsCertificate, serving
    from mesh_sds.testing import FakeSecrets

    clients = Clients()
    assert await asyncio.to_thread(clients._pipe.recv) == "up"
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sds-")))
        served = []
        for name, allow in (("direct", None), ("checked", AllowedPeers())):
            if only not in {None, name}:
                continue
            secrets, path = FakeSecrets(), directory / name / "socket"
            secrets.set(default=TlsCertificate(chain_pem=b"0" * 3200, private_key_pem=b"k" * 240))
            # All streams are of one process, which is one peer.
            limits = ConnectionLimits(port=16_384, peer=16_384)
            config = SdsConfig(socket_path=path, allow=allow, limits=limits)
            server = await stack.enter_async_context(serving(config, secrets))
            served.append(Served(name, path, secrets, server))

        await _pushes(served, clients, count=1, size=3200, rounds=PUSHES, what="one stream, 3 kB")
        size = large_kib * 1024
        large = await _pushes(
            served,
            clients,
            count=1,
            size=size,
            rounds=LARGE_PUSHES,
            what=f"one stream, {large_kib} KiB",
        )
        for one in served:
            rate = size / statistics.median(large[one.name]) / 1e6
            print(f"{'throughput of that':<44} {one.name:<8} {rate:8.0f} MB/s")
            one.rounds += 1
            one.secrets.set(default=TlsCertificate(chain_pem=b"0" * 3200, private_key_pem=b"k"))

        storms: dict[str, list[float]] = {one.name: [] for one in served}
        for one in served * STORMS:
            before = _memory_kib()
            storms[one.name].append(await clients.do("connect", str(one.path), streams))
            if only is not None and len(storms[one.name]) == 1:
                each = (_memory_kib() - before) / streams
                print(f"{'memory a connection':<44} {one.name:<8} {each:8.1f} KiB")
            await clients.do("leave", str(one.path))
            await one.server.wait_until(lambda subscribers: not subscribers)
        for name, values in storms.items():
            _tell(f"{streams} streams reconnect at once, all served", name, values)
        await _pushes(
            served,
            clients,
            count=streams,
            size=3200,
            rounds=20,
            what=f"rotation to {streams} streams",
        )
        await clients.stop()


async def _pushes(
    served: list[Served], clients: Clients, *, count: int, size: int, rounds: int, what: str
) -> dict[str, list[float]]:
    for one in served:
        await clients.do("connect", str(one.path), count)
    seconds: dict[str, list[float]] = {one.name: [] for one in served}
    for _ in range(rounds):
        for one in served:
            seconds[one.name].append(await one.push(clients, size))
    for name, values in seconds.items():
        _tell(what, name, values)
    for one in served:
        await clients.do("leave", str(one.path))
        await one.server.wait_until(lambda subscribers: not subscribers)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--large-kib", type=int, default=2048)
    parser.add_argument("--only", choices=["direct", "checked"])
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    work: Coroutine[object, object, None] = measure(
        options.streams, options.large_kib, options.only
    )
    uvloop.run(work)


if __name__ == "__main__":
    main()
