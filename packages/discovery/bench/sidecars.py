"""Many sidecars towards one control plane, in one process: the load of `bench_edits.py`.

Each has a connection and an ADS stream of its own, asks for clusters, endpoints, listeners and
routes as Envoy would, and acknowledges every response. It prints one JSON object a line: first that
all have their configuration, then the answer to each command on standard input:

    arm TEXT               from now on note when each sidecar first gets a response with TEXT in it
    wait TYPE [SECONDS]    wait until every sidecar got it by that type (CDS, EDS, LDS, RDS); times
                           are seconds since the epoch

Only the server's figures are worth something beside such a load: it is slower than Envoys are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
import grpc.aio
from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.core.v3.base_pb2 import Node
from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from envoy.service.discovery.v3 import discovery_pb2

ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService"
CDS = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LDS = "type.googleapis.com/envoy.config.listener.v3.Listener"
RDS = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
TYPES = {"CDS": CDS, "EDS": EDS, "LDS": LDS, "RDS": RDS}
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


class Watch:
    """When each sidecar first got a response of a type with a text in it."""

    def __init__(self) -> None:
        self._text = b""
        self._seen: dict[str, dict[int, float]] = {}
        self._changed = asyncio.Event()

    def arm(self, text: str) -> None:
        self._text = text.encode()
        self._seen = {}

    def note(self, number: int, type_url: str, raw: bytes) -> None:
        if self._text and self._text in raw:
            self._seen.setdefault(type_url, {}).setdefault(number, time.time())
            self._changed.set()

    async def wait(self, name: str, number: int, patience_s: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(patience_s):
                while len(self._seen.get(TYPES[name], {})) < number:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return {"event": "seen", name: spread(self._seen.get(TYPES[name], {}).values())}


class Sidecar:
    """One stream: what it asked for of each type, and what the resources it has refer to."""

    def __init__(self, number: int, options: argparse.Namespace, watch: Watch) -> None:
        self._number = number
        self._options = options
        self._watch = watch
        self._channel = grpc.aio.insecure_channel(options.addr, options=OPTIONS)
        method = "DeltaAggregatedResources" if options.delta else "StreamAggregatedResources"
        self._call: Any = self._channel.stream_stream(f"{ADS}/{method}", None, None)(None)
        self._names: dict[str, frozenset[str]] = {}
        self._last: dict[str, tuple[str, str]] = {}
        self._answered: set[str] = set()
        self._refers: dict[str, dict[str, frozenset[str]]] = {CDS: {}, LDS: {}}
        self._sent_node = False
        self.ready = asyncio.Event()
        self.ready_at = 0.0

    async def run(self) -> None:
        try:
            await self._ask(CDS, frozenset())
            while isinstance(raw := await self._call.read(), bytes):
                await self._take(raw)
        finally:
            self._call.cancel()
            await self._channel.close(None)

    async def _take(self, raw: bytes) -> None:
        kind: Any = (
            discovery_pb2.DeltaDiscoveryResponse
            if self._options.delta
            else discovery_pb2.DiscoveryResponse
        )
        response = kind.FromString(raw)
        type_url: str = response.type_url
        self._watch.note(self._number, type_url, raw)
        self._answered.add(type_url)
        await self._acknowledge(response)
        if type_url == CDS:
            await self._follow(response, EDS)
            if LDS not in self._names:
                await self._ask(LDS, frozenset())
        elif type_url == LDS:
            await self._follow(response, RDS)
        if (
            not self.ready.is_set()
            and LDS in self._answered
            and self._names.keys() <= (self._answered)
        ):
            self.ready_at = time.monotonic()
            self.ready.set()

    async def _follow(self, response: Any, other: str) -> None:
        refers = self._refers[response.type_url]
        if not self._options.delta:
            refers.clear()
        for each in response.resources:
            body = each.resource if self._options.delta else each
            name, found = references(response.type_url, body.value)
            refers[name] = found
        for name in response.removed_resources if self._options.delta else ():
            refers.pop(name, None)
        wanted = frozenset().union(*refers.values())
        if wanted != self._names.get(other, frozenset()):
            await self._ask(other, wanted)

    async def _ask(self, type_url: str, names: frozenset[str]) -> None:
        had = self._names.get(type_url, frozenset())
        self._names[type_url] = names
        if self._options.delta:
            request: Any = discovery_pb2.DeltaDiscoveryRequest(
                type_url=type_url,
                resource_names_subscribe=sorted(names - had),
                resource_names_unsubscribe=sorted(had - names),
            )
        else:
            version, nonce = self._last.get(type_url, ("", ""))
            request = discovery_pb2.DiscoveryRequest(
                type_url=type_url,
                resource_names=sorted(names),
                version_info=version,
                response_nonce=nonce,
            )
        if not self._sent_node:
            self._sent_node = True
            request.node.CopyFrom(self._node())
        await self._call.write(request.SerializeToString())

    async def _acknowledge(self, response: Any) -> None:
        if self._options.delta:
            request: Any = discovery_pb2.DeltaDiscoveryRequest(
                type_url=response.type_url, response_nonce=response.nonce
            )
        else:
            self._last[response.type_url] = response.version_info, response.nonce
            request = discovery_pb2.DiscoveryRequest(
                type_url=response.type_url,
                resource_names=sorted(self._names.get(response.type_url, ())),
                version_info=response.version_info,
                response_nonce=response.nonce,
            )
        await self._call.write(request.SerializeToString())

    def _node(self) -> Any:
        address = f"10.88.{self._number // 250}.{self._number % 250 + 1}"
        name, namespace = f"load-{self._number}", self._options.namespace
        node: Any = Node(
            id=f"sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local",
            cluster=f"load.{namespace}",
        )
        node.metadata.update(
            {
                "NAME": name,
                "NAMESPACE": namespace,
                "SERVICE_ACCOUNT": "load",
                "INSTANCE_IPS": address,
                "INTERCEPTION_MODE": "NONE",
                "ISTIO_VERSION": "1.24.0",
                "LABELS": {"app": "load"},
            }
        )
        return node


def references(type_url: str, value: bytes) -> tuple[str, frozenset[str]]:
    """Return a resource's name, and the names that it has a sidecar ask for of another type."""
    key = (type_url, value)
    if (known := _KNOWN.get(key)) is None:
        known = _KNOWN[key] = clusters(value) if type_url == CDS else listeners(value)
    return known


_KNOWN: dict[tuple[str, bytes], tuple[str, frozenset[str]]] = {}
"""By their bytes, as all sidecars get nearly the same ones."""


def clusters(value: bytes) -> tuple[str, frozenset[str]]:
    cluster: Any = Cluster.FromString(value)
    if cluster.type != Cluster.EDS:
        return cluster.name, frozenset()
    return cluster.name, frozenset({cluster.eds_cluster_config.service_name or cluster.name})


def listeners(value: bytes) -> tuple[str, frozenset[str]]:
    listener: Any = Listener.FromString(value)
    chains = [*listener.filter_chains]
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    found = set()
    for each in (one for chain in chains for one in chain.filters):
        manager: Any = http_connection_manager_pb2.HttpConnectionManager()
        if each.typed_config.Unpack(manager) and manager.HasField("rds"):
            found.add(manager.rds.route_config_name)
    return listener.name, frozenset(found)


def spread(values: Iterable[float]) -> Mapping[str, float]:
    found = sorted(values)
    if not found:
        return {"n": 0}
    middle = found[len(found) // 2]
    return {"n": len(found), "first": found[0], "p50": middle, "last": found[-1]}


async def main(options: argparse.Namespace) -> None:
    watch = Watch()
    sidecars = [Sidecar(number, options, watch) for number in range(options.n)]
    begun = time.monotonic()
    running = [asyncio.create_task(each.run(), name="sidecar") for each in sidecars]
    try:
        async with asyncio.timeout(options.timeout):
            for each in sidecars:
                await each.ready.wait()
    except TimeoutError:
        pass
    ready = [each.ready_at - begun for each in sidecars if each.ready.is_set()]
    say({"event": "ready", **spread(ready)})
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while words := (await lines.readline()).decode().split():
        if words[0] == "arm":
            watch.arm(words[1])
            say({"event": "armed"})
        else:
            say(await watch.wait(words[1], options.n, float(words[2])))
    for task in running:
        task.cancel()
    await asyncio.wait(running)


def say(event: Mapping[str, Any]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-addr", required=True)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("-namespace", default="default")
    parser.add_argument("-timeout", type=lambda text: float(text.removesuffix("s")), default=120.0)
    parser.add_argument("-delta", action="store_true")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    asyncio.run(main(parser.parse_args()))
