"""How fast a rotation reaches many streams: python bench/bench_push.py [STREAMS]."""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc.aio
from envoy.service.discovery.v3 import discovery_pb2

from mesh_sds import SdsConfig, TlsCertificate, serving
from mesh_sds.testing import FakeSecrets
from xds_server import type_urls

METHOD = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
ROUNDS = 20


def certificate(number: int) -> TlsCertificate:
    """Make a secret of a usual size: a chain of two, a P-256 key."""
    return TlsCertificate(chain_pem=b"%04d" % number * 400, private_key_pem=b"key " * 60)


async def subscribe(channel: Any) -> Any:
    requests: Any = discovery_pb2.DiscoveryRequest
    call = channel.stream_stream(
        METHOD,
        request_serializer=requests.SerializeToString,
        response_deserializer=discovery_pb2.DiscoveryResponse.FromString,
    )()
    await call.write(
        requests(node={"id": "bench"}, type_url=type_urls.SECRET, resource_names=["default"])
    )
    await acknowledge(call)
    return call


async def acknowledge(call: Any) -> None:
    response = await call.read()
    requests: Any = discovery_pb2.DiscoveryRequest
    await call.write(
        requests(
            type_url=type_urls.SECRET,
            resource_names=["default"],
            version_info=response.version_info,
            response_nonce=response.nonce,
        )
    )


async def main(streams: int) -> None:
    secrets = FakeSecrets()
    secrets.set(default=certificate(0))
    with tempfile.TemporaryDirectory(prefix="sds-") as directory:
        path = Path(directory, "socket")
        async with (
            serving(SdsConfig(socket_path=path), secrets),
            grpc.aio.insecure_channel(f"unix:{path}") as channel,
        ):
            started = time.perf_counter()
            calls = await asyncio.gather(*(subscribe(channel) for _ in range(streams)))
            elapsed = time.perf_counter() - started
            print(f"{streams} streams connected and served: {elapsed * 1e3:.0f} ms")
            seconds = []
            for number in range(1, ROUNDS + 1):
                started = time.perf_counter()
                secrets.set(default=certificate(number))
                await asyncio.gather(*map(acknowledge, calls))
                seconds.append(time.perf_counter() - started)
            median, worst = statistics.median(seconds), max(seconds)
            print(
                f"rotation -> all {streams} have it: "
                f"median {median * 1e3:.1f} ms, worst {worst * 1e3:.1f} ms"
            )
            for call in calls:
                call.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
