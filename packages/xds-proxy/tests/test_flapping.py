"""A real Envoy, whose control plane comes and goes while it serves requests."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import grpc.aio
import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as hcm_pb2,
)
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import json_format

from envoys import running_envoy
from mesh_testkit import PATIENCE_S, until
from relays import LISTENER, Messages, RelayStarter
from xds_proxy.testing import ControlPlaneStream, control_plane


class Configured(NamedTuple):
    """The configuration of the control plane: one listener that answers with a number."""

    port: int
    number: int


class InSync(NamedTuple):
    """Seconds from a control plane's start until Envoy had accepted all, and until it used it."""

    accepted_s: float
    in_use_s: float


def _listener(configured: Configured) -> bytes:
    manager = hcm_pb2.HttpConnectionManager(stat_prefix="in")
    json_format.ParseDict(
        {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "direct_response": {
                                "status": 200,
                                "body": {"inline_string": str(configured.number)},
                            },
                        }
                    ],
                }
            ]
        },
        manager.route_config,
    )
    manager.http_filters.add(name="router").typed_config.Pack(router_pb2.Router())
    listener = listener_pb2.Listener(name="in")
    listener.address.socket_address.address = "127.0.0.1"
    listener.address.socket_address.port_value = configured.port
    listener.filter_chains.add().filters.add(name="hcm").typed_config.Pack(manager)
    return bytes(listener.SerializeToString())


def _resource(type_url: str, configured: Configured) -> bytes:
    if type_url == LISTENER:
        return _listener(configured)
    cluster = cluster_pb2.Cluster(name="cluster", type=cluster_pb2.Cluster.STATIC)
    cluster.connect_timeout.seconds = configured.number + 1
    return bytes(cluster.SerializeToString())


async def _received(stream: ControlPlaneStream) -> bytes | None:
    with suppress(grpc.aio.BaseError, asyncio.CancelledError):
        return await stream.receive()
    return None


async def _serve_stream(
    stream: ControlPlaneStream,
    configured: Callable[[], Configured],
    accepted: set[str],
    *,
    delta: bool,
) -> None:
    """Answer each first request with the configuration; fail on a nonce of another stream.

    accepted: is given the types that Envoy has accepted.
    """
    request_type = discovery_pb2.DeltaDiscoveryRequest if delta else discovery_pb2.DiscoveryRequest
    known: set[str] = set()
    nonces: set[str] = set()
    while (raw := await _received(stream)) is not None:
        request = request_type.FromString(raw)
        assert not request.response_nonce or request.response_nonce in nonces
        if request.response_nonce and not request.HasField("error_detail"):
            accepted.add(request.type_url)
        if request.type_url in known:
            continue
        known.add(request.type_url)
        now = configured()
        nonce = str(len(nonces) + 1)
        nonces.add(nonce)
        if delta:
            message = discovery_pb2.DeltaDiscoveryResponse(
                type_url=request.type_url, nonce=nonce, system_version_info=str(now.number)
            )
            name = "in" if request.type_url == LISTENER else "cluster"
            resource = message.resources.add(name=name, version=str(now.number))
            resource.resource.type_url = request.type_url
            resource.resource.value = _resource(request.type_url, now)
            await stream.send(message.SerializeToString())
        else:
            body = _resource(request.type_url, now)
            await stream.send(
                Messages.response(
                    request.type_url, version=str(now.number), nonce=nonce, bodies=(body,)
                )
            )


@asynccontextmanager
async def _requests(port: int, results: list[bytes | None]) -> AsyncIterator[None]:
    """Ask Envoy without a pause, each time on a new connection; None is a failure."""

    async def ask() -> None:
        while True:
            answer: bytes | None = None
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                    # Not until the end: Envoy closes a second after its answer.
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length:")[2].split()[0])
                    answer = head + await reader.readexactly(length)
                finally:
                    writer.close()
            good = answer is not None and answer.startswith(b"HTTP/1.1 200")
            results.append(answer.rpartition(b"\r\n")[2] if good and answer else None)
            await asyncio.sleep(0.01)

    asking = asyncio.create_task(ask(), name="requests")
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])


def _unique_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


@pytest.mark.parametrize("api_type", ["GRPC", "DELTA_GRPC"])
@pytest.mark.parametrize(
    ("flaps", "half_s"), [(2, 0.2), pytest.param(60, 1.0, marks=pytest.mark.slow)]
)
async def test_a_flapping_control_plane_costs_no_request_and_no_stream_of_envoys(
    start_relay: RelayStarter,
    envoy_binary: Path,
    free_port: Callable[[], int],
    *,
    api_type: str,
    flaps: int,
    half_s: float,
) -> None:
    address, configured = f"127.0.0.1:{free_port()}", Configured(free_port(), 0)
    results: list[bytes | None] = []
    loop = asyncio.get_running_loop()

    async def flap(relay_streams: Callable[[], int]) -> InSync:
        accepted: set[str] = set()
        async with asyncio.TaskGroup() as group, control_plane(address=address) as plane:
            began = loop.time()

            async def accept() -> None:
                while True:
                    stream = await plane.accept()
                    serving = _serve_stream(
                        stream, lambda: configured, accepted, delta=api_type == "DELTA_GRPC"
                    )
                    group.create_task(serving, name="control plane")

            accepting = group.create_task(accept(), name="accepting")
            await until(lambda: len(accepted) == 2, what="Envoy's answers")
            accepted_s = loop.time() - began
            number = str(configured.number).encode()
            await until(
                lambda: bool(results) and results[-1] == number,
                what=f"configuration {number!r} in Envoy",
            )
            in_use_s = loop.time() - began
            assert relay_streams() == 1
            await asyncio.sleep(half_s)
            accepting.cancel()
        return InSync(accepted_s, in_use_s)

    async with (
        start_relay(address) as running,
        running_envoy(envoy_binary, running.socket_path, api_type),
    ):
        async with asyncio.timeout(PATIENCE_S * 10), _requests(configured.port, results):

            def streams() -> int:
                return running.relay.status.streams

            await flap(streams)
            results.clear()
            descriptors: list[int] = []
            memory: list[int] = []
            tasks: list[int] = []
            in_sync: list[InSync] = []
            for number in range(1, flaps + 1):
                configured = configured._replace(number=number)
                await asyncio.sleep(half_s)
                in_sync.append(await flap(streams))
                tasks.append(len(asyncio.all_tasks()))
                gc.collect()
                descriptors.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
                memory.append(_unique_bytes())
            assert None not in results
            assert len(results) > flaps
            counters = running.relay.counters
            assert (counters.envoy_ended, streams()) == (0, 1)
            print("descriptors", descriptors, "unique", [each >> 10 for each in memory])  # noqa: T201
            print("tasks", tasks, "requests", len(results), "failed", results.count(None))  # noqa: T201
            print("after the last flap:", in_sync[-1], "at most:", max(in_sync))  # noqa: T201
            assert descriptors[-1] <= descriptors[0] + 2
            assert min(tasks[-10:]) <= tasks[0] + 2, "tasks are left"
    assert counters.connection_failures >= flaps
