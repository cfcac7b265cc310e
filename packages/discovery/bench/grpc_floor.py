"""gRPC for Python alone as a control plane that has nothing; part of `bench_edits`.

Answers every request with nothing, and writes one response to every stream at each line of input.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import grpc.aio
from envoy.service.discovery.v3 import discovery_pb2


async def floor(port: int) -> None:
    """Answer every request with nothing, and write one response to all at each line of input."""
    changed = asyncio.Condition()
    response = b""

    async def stream(requests: Any, context: Any) -> None:
        first = discovery_pb2.DiscoveryRequest.FromString(await anext(requests))
        answered = {first.type_url}
        await context.write(_nothing(first.type_url))

        async def read() -> None:
            async for raw in requests:
                if b"discovery" in raw or len(answered) < 2:
                    asked = discovery_pb2.DiscoveryRequest.FromString(raw).type_url
                    if asked not in answered:
                        answered.add(asked)
                        await context.write(_nothing(asked))

        reading = asyncio.create_task(read(), name="floor reader")
        try:
            while True:
                async with changed:
                    await changed.wait()
                await context.write(response)
        finally:
            reading.cancel()

    def _nothing(type_url: str) -> bytes:
        found = discovery_pb2.DiscoveryResponse(version_info="1", type_url=type_url, nonce="1")
        return found.SerializeToString()

    service_name = "envoy.service.discovery.v3.AggregatedDiscoveryService"
    handlers = {
        name: grpc.stream_stream_rpc_method_handler(stream)
        for name in ("StreamAggregatedResources", "DeltaAggregatedResources")
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service_name, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    lines: asyncio.Queue[str] = asyncio.Queue()
    _read_lines(lines.put_nowait)
    while text := await lines.get():
        body = discovery_pb2.DiscoveryResponse(
            version_info=text.strip().ljust(400),
            type_url="type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            nonce="2",
        )
        response = body.SerializeToString()
        async with changed:
            changed.notify_all()


def _read_lines(take: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()

    def lines() -> Iterator[str]:
        yield from sys.stdin
        yield ""

    def read() -> None:
        for each in lines():
            loop.call_soon_threadsafe(take, each)

    threading.Thread(target=read, daemon=True).start()


if __name__ == "__main__":
    asyncio.run(floor(int(sys.argv[1])))
