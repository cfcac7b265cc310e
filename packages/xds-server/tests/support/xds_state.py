"""Configuration for tests, and a stream without any I/O."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from envoy.service.discovery.v3 import discovery_pb2

from mesh_lifecycle import SystemClock
from mesh_protowire import text_of
from xds_server import (
    Client,
    Generated,
    Node,
    PushRequest,
    Resource,
    Watch,
    XdsServer,
)
from xds_server import type_urls as types
from xds_server.protocol._request import ClientError, DeltaRequest, SotwRequest
from xds_server.streams._endpoints_in_doubt import EndpointsInDoubt
from xds_server.streams._last_clusters import LastClusters
from xds_server.subscriptions._delta import DeltaState
from xds_server.subscriptions._sotw import SotwState


class State:
    """Configuration as a dict of dicts: type, name, resource. One generator for every type."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Resource]] = {}
        self.requested: list[tuple[Watch, PushRequest | None]] = []
        self.say_removed = True
        self._partial: Generated | None = None

    def generate(
        self, _client: Client[None], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        self.requested.append((watch, push))
        if self._partial is not None:
            return self._partial
        existing = self.resources.get(watch.type_url, {})
        return Generated(
            resources=tuple(r for name, r in existing.items() if watch.covers(name)),
            removed=watch.names - existing.keys() if self.say_removed else frozenset(),
        )

    def set(self, *resources: Resource) -> None:
        for resource in resources:
            self.resources.setdefault(resource.type_url, {})[resource.name] = resource

    def partial(self, *, changed: Iterable[Resource], removed: Iterable[str]) -> None:
        """From now on, answer with this difference only."""
        self._partial = Generated(
            resources=tuple(changed), removed=frozenset(removed), partial=True
        )

    def drop(self, type_url: str, *names: str) -> None:
        for name in names:
            del self.resources[type_url][name]


class Make:
    """Resources that differ in nothing but a number."""

    def cluster(
        self, name: str, *, change: int = 0, eds: bool = True, service_name: str = ""
    ) -> Resource:
        cluster = cluster_pb2.Cluster(name=name)
        cluster.connect_timeout.seconds = 1 + change
        if eds:
            cluster.type = cluster_pb2.Cluster.EDS
            cluster.eds_cluster_config.eds_config.ads.SetInParent()
            cluster.eds_cluster_config.service_name = service_name
        return Resource.pack(cluster, name=name)

    def endpoints(self, name: str, *, change: int = 0) -> Resource:
        message = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        address = message.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
        address.address, address.port_value = "127.0.0.1", 1000 + change
        return Resource.pack(message, name=name)

    def listener(self, name: str, *, change: int = 0) -> Resource:
        return Resource.pack(
            listener_pb2.Listener(name=name, stat_prefix=f"change_{change}"), name=name
        )

    def http_listener(self, name: str, *, route: str, change: int = 0) -> Resource:
        manager = http_connection_manager_pb2.HttpConnectionManager()
        manager.rds.route_config_name = route
        manager.rds.config_source.ads.SetInParent()
        message = listener_pb2.Listener(name=name, stat_prefix=f"change_{change}")
        message.filter_chains.add().filters.add().typed_config.Pack(manager)
        return Resource.pack(message, name=name)

    def route(self, name: str, *, change: int = 0) -> Resource:
        message = route_pb2.RouteConfiguration(name=name)
        message.virtual_hosts.add(name=f"change-{change}", domains=["*"])
        return Resource.pack(message, name=name)


ALL_TYPES = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE, types.SECRET)

Running = Callable[..., AbstractAsyncContextManager[XdsServer[None]]]


class Core:
    """One stream without any I/O, over `state`; what it sends is decoded."""

    def __init__(self, state: State, *, delta: bool) -> None:
        self.now = 0.0
        self.version = "v1"
        self.hold_until_ack_s: float | None = None
        self.drain_time_s = 0.0
        self._streams = itertools.count(1)
        self._state = state
        self._delta = delta
        self._endpoints_in_doubt = EndpointsInDoubt()
        self._last_clusters = LastClusters(clock=SystemClock())
        self.client: Client[None] = Client(id="n-1", node=Node(id="n"), identities=(), context=None)
        self.reset()

    def reset(self) -> None:
        """The client reconnects."""
        kind: Any = DeltaState if self._delta else SotwState
        self.stream: Any = kind(
            nonce_prefix=f"stream{next(self._streams)}",
            order_wait_s=5.0,
            hold_until_ack_s=self.hold_until_ack_s,
            drain_time_s=self.drain_time_s,
            now=lambda: self.now,
            version=lambda: self.version,
        )
        self.stream.identifier = "test"
        if self._delta:
            self.stream.in_doubt = self._endpoints_in_doubt.on_open(
                self.client.node.id, self.stream.warming
            )
        else:
            self.stream.before = self._last_clusters.on_open(self.client.node.id, self.stream)
        self._pushing: Iterator[Any] = iter(())
        self._stuck = False

    def request(self, type_url: str, *names: str, **fields: Any) -> list[Any]:
        """A state-of-the-world request; what it is answered with."""
        return self.receive(SotwRequest(type_url=type_url, names=frozenset(names), **fields))

    def delta(self, type_url: str, **fields: Any) -> list[Any]:
        """A delta request; what it is answered with."""
        for key in ("subscribe", "unsubscribe"):
            fields[key] = frozenset(fields.get(key, ()))
        return self.receive(DeltaRequest(type_url=type_url, **fields))

    def receive(self, request: Any) -> list[Any]:
        self.received = self.stream.receive(request)
        source = partial(self._source, push=None)
        replies = self._decoded(self.stream.answers(self.received.queries, source))
        return replies + self._decoded(self._pushing)

    def ack(self, reply: Any, *names: str, nack: str = "") -> list[Any]:
        """Answer a response; further names only in the state-of-the-world dialect."""
        error = ClientError(code=3, message=nack) if nack else None
        if self._delta:
            return self.delta(reply.type_url, nonce=reply.nonce, error=error)
        return self.request(
            reply.type_url, *names, nonce=reply.nonce, version=reply.version_info, error=error
        )

    def push(self, **fields: Any) -> list[Any]:
        self._pushing = self.stream.push(partial(self._source, push=PushRequest(**fields)))
        return self._decoded(self._pushing)

    @property
    def push_in_flight(self) -> bool:
        """Whether a push waits for the client."""
        return self._stuck

    @staticmethod
    def error(message: str) -> ClientError:
        return ClientError(code=3, message=message)

    def go_on(self) -> list[Any]:
        """Time has passed."""
        return self._decoded(self._pushing) + self.removals()

    def removals(self) -> list[Any]:
        source = partial(self._source, push=None)
        return self._decoded(self.stream.answers((), source))

    def subscription(self, type_url: str) -> Any:
        return self.stream.subscriptions[type_url]

    def source(self, query: Any) -> Generated | None:
        """Where a push of everything gets its resources."""
        return self._source(query, push=PushRequest())

    def _source(self, query: Any, *, push: PushRequest | None) -> Generated | None:
        return self._state.generate(self.client, query.watch, None if query.requested else push)

    def _decoded(self, responses: Any) -> list[Any]:
        kind: Any = (
            discovery_pb2.DeltaDiscoveryResponse if self._delta else discovery_pb2.DiscoveryResponse
        )
        decoded = []
        for response in responses:
            if response is None:  # The rest comes when the client has said more.
                self._stuck = True
                break
            decoded.append(kind.FromString(response.data))
        else:
            if responses is self._pushing:
                self._stuck = False
        return decoded


def names_in(reply: Any) -> list[str]:
    """The names of the resources of a response, sorted."""
    if hasattr(reply, "removed_resources"):
        return sorted(resource.name for resource in reply.resources)
    return sorted(text_of(resource.value, 1) for resource in reply.resources)


Reply: TypeAlias = discovery_pb2.DeltaDiscoveryResponse | discovery_pb2.DiscoveryResponse
Names: TypeAlias = Callable[[Any], list[str]]
NewCore: TypeAlias = Callable[..., tuple[Core, State]]
Settle: TypeAlias = Callable[[], Awaitable[None]]
