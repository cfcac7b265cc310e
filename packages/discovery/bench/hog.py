"""One caller that takes what it can of a control plane: the load of `bench_hog.py`.

It comes from an address of its own, 127.0.0.2, by which a server tells it from others.

Run as a script: `hog.py ADDRESS KIND STREAMS NAMES`. It says on a line that it has begun, goes on
until its standard input ends, and opens each stream again that the server ends. At the end it
says how its streams ended, by status.
"""

from __future__ import annotations

import asyncio
import json
import resource
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import cache
from typing import Any

import grpc
import grpc.aio
import h2.config
import h2.connection
import h2.settings
from envoy.config.core.v3.base_pb2 import Node
from envoy.service.discovery.v3 import discovery_pb2

SERVICE = "/envoy.service.discovery.v3.AggregatedDiscoveryService"
CDS = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
AGAIN_AFTER_S = 0.2
OWN_ADDRESS = ("127.0.0.2", 0)
UNREAD_PER_CONNECTION = 10

Delta: Any = discovery_pb2.DeltaDiscoveryRequest
Sotw: Any = discovery_pb2.DiscoveryRequest


def node(name: str) -> Any:
    hog: Any = Node(id=f"sidecar~10.66.0.1~{name}.default~default.svc.cluster.local")
    hog.metadata.update({"NAMESPACE": "default", "LABELS": {"app": "hog"}})
    return hog


def names(stream: int, number: int, turn: int = 0) -> list[str]:
    """Names of 60 bytes that no other stream has."""
    host = "default.svc.cluster.local"
    return [f"outbound|80||s-{stream:04}-{turn:04}-{n:07}.{host}"[:60] for n in range(number)]


Messages = Callable[[int, int], AsyncIterator[bytes]]
"""Returns the requests of one stream, by its number and how many names."""


@cache
def naming(stream: int, number: int, *, delta: bool) -> bytes:
    request = (Delta if delta else Sotw)(type_url=EDS, node=node(f"hog-{stream}"))
    some = request.resource_names_subscribe if delta else request.resource_names
    some.extend(names(stream, number))
    data: bytes = request.SerializeToString()
    return data


async def many_names(stream: int, number: int) -> AsyncIterator[bytes]:
    yield naming(stream, number, delta=True)


async def many_names_sotw(stream: int, number: int) -> AsyncIterator[bytes]:
    yield naming(stream, number, delta=False)


async def many_types(stream: int, number: int) -> AsyncIterator[bytes]:
    yield Delta(type_url=CDS, node=node(f"hog-{stream}")).SerializeToString()
    for each in range(1000):
        request = Delta(type_url=f"type.googleapis.com/hog.{each}")
        request.resource_names_subscribe.extend(names(stream, number // 1000, each))
        yield request.SerializeToString()


async def initial_versions(stream: int, number: int) -> AsyncIterator[bytes]:
    """Versions of a kilobyte, as many as fit into a request, of each type there is."""
    for kind in (EDS, CDS, "type.googleapis.com/envoy.config.listener.v3.Listener"):
        request = Delta(type_url=kind, node=node(f"hog-{stream}"))
        for name in names(stream, min(number, 14_000)):
            request.resource_names_subscribe.append(name)
            request.initial_resource_versions[name] = name.ljust(1000, "v")
        yield request.SerializeToString()


async def toggled(stream: int, number: int) -> AsyncIterator[bytes]:
    """Subscribes to names and gives them up again, for ever."""
    yield Delta(type_url=EDS, node=node(f"hog-{stream}")).SerializeToString()
    for turn in range(1_000_000):
        some = names(stream, number, turn)
        yield Delta(type_url=EDS, resource_names_subscribe=some).SerializeToString()
        yield Delta(type_url=EDS, resource_names_unsubscribe=some).SerializeToString()


async def quick(stream: int, _number: int) -> AsyncIterator[bytes]:
    """Asks for one cluster again and again, as fast as it is taken."""
    yield Delta(type_url=CDS, node=node(f"hog-{stream}")).SerializeToString()
    again = Delta(type_url=EDS, resource_names_subscribe=["x"]).SerializeToString()
    while True:
        yield again


async def wrong_nonces(stream: int, number: int) -> AsyncIterator[bytes]:
    """Asks in the state of the world with nonces that were never sent."""
    yield Sotw(type_url=CDS, node=node(f"hog-{stream}")).SerializeToString()
    some = names(stream, number // 100)
    for turn in range(10_000_000):
        request = Sotw(type_url=EDS, resource_names=some, response_nonce=f"{turn}")
        yield request.SerializeToString()


async def refusals(stream: int, _number: int) -> AsyncIterator[bytes]:
    """Refuses with a megabyte of details."""
    yield Sotw(type_url=CDS, node=node(f"hog-{stream}")).SerializeToString()
    for turn in range(10_000_000):
        request = Sotw(type_url=CDS, response_nonce=f"{turn}")
        request.error_detail.message = f"{turn}".ljust(1 << 20, "x")
        yield request.SerializeToString()


async def idle(stream: int, _number: int) -> AsyncIterator[bytes]:
    yield Sotw(type_url=EDS, node=node(f"hog-{stream}"), resource_names=["x"]).SerializeToString()


KINDS: dict[str, tuple[Messages, str]] = {
    "names": (many_names, "DeltaAggregatedResources"),
    "sotw-names": (many_names_sotw, "StreamAggregatedResources"),
    "types": (many_types, "DeltaAggregatedResources"),
    "versions": (initial_versions, "DeltaAggregatedResources"),
    "toggle": (toggled, "DeltaAggregatedResources"),
    "quick": (quick, "DeltaAggregatedResources"),
    "nonces": (wrong_nonces, "StreamAggregatedResources"),
    "refusals": (refusals, "StreamAggregatedResources"),
    "idle": (idle, "StreamAggregatedResources"),
}


async def hold(address: str, kind: str, stream: int, number: int, ends: Counter[str]) -> None:
    """Keep one stream open, and open it again whenever it ends."""
    messages, method = KINDS[kind]
    while True:
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            call: Any = channel.stream_stream(f"{SERVICE}/{method}", None, None)(None)

            async def send(call: Any = call) -> None:
                with suppress(grpc.RpcError, asyncio.InvalidStateError):
                    async for message in messages(stream, number):
                        await call.write(message)

            sending = asyncio.create_task(send())
            try:
                while await call.read() is not grpc.aio.EOF:  # type: ignore[attr-defined]  # stubs
                    pass
                ends[f"{(await call.code()).name} {await call.details()}"[:200]] += 1
            except grpc.aio.AioRpcError as error:
                ends[f"{error.code().name} {error.details()}"[:200]] += 1
            finally:
                sending.cancel()
                await asyncio.wait([sending])
        await asyncio.sleep(AGAIN_AFTER_S)


async def hold_unread(address: str, connection: int, streams: int, ends: Counter[str]) -> None:
    """Keep streams of one connection open that have no room for a byte of their answers."""
    host, _, port = address.rpartition(":")
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port), local_addr=OWN_ADDRESS)
            configuration = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
            http = h2.connection.H2Connection(configuration)
            http.initiate_connection()
            http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
            for each in range(streams):
                stream = http.get_next_available_stream_id()
                headers = {
                    ":method": "POST",
                    ":scheme": "http",
                    ":path": f"{SERVICE}/StreamAggregatedResources",
                    ":authority": "server",
                    "content-type": "application/grpc",
                    "te": "trailers",
                }
                http.send_headers(stream, list(headers.items()))
                request = Sotw(type_url=CDS, node=node(f"unread-{connection}-{each}"))
                data = request.SerializeToString()
                http.send_data(stream, b"\0" + struct.pack(">I", len(data)) + data)
            writer.write(http.data_to_send())
            await writer.drain()
            while data := await reader.read(65536):  # until the server closes it
                http.receive_data(data)
                writer.write(http.data_to_send())
            writer.close()
        ends["connection closed"] += 1
        await asyncio.sleep(AGAIN_AFTER_S)


async def forward(address: str) -> str:
    """Listen for gRPC's clients, which can't choose their address, and connect from our own."""
    host, _, port = address.rpartition(":")

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 18):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            other = await asyncio.open_connection(host, int(port), local_addr=OWN_ADDRESS)
            await asyncio.gather(copy(reader, other[1]), copy(other[0], writer))
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    return "127.0.0.1:{1}".format(*server.sockets[0].getsockname())


async def main(address: str, kind: str, streams: int, number: int) -> None:
    ends: Counter[str] = Counter()
    if kind == "unread":
        each = min(streams, UNREAD_PER_CONNECTION)
        work = [hold_unread(address, n, each, ends) for n in range(streams // each)]
    else:
        address = await forward(address)
        if "names" in kind:
            for stream in range(streams):  # Making them is not to be waited for later.
                naming(stream, number, delta=kind == "names")
        work = [hold(address, kind, stream, number, ends) for stream in range(streams)]
    tasks = [asyncio.create_task(each) for each in work]
    print("begun", flush=True)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await lines.read()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    print(json.dumps(ends.most_common(4)), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
