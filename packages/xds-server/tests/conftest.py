"""Generators and servers that the tests of this package share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2

from xds_server import Client, Generated, PushRequest, Resource, ServerConfig, Watch, XdsServer
from xds_server import type_urls as types
from xds_server.testing import admit_all


class State:
    """Configuration as a dict of dicts: type, name, resource. One generator for every type."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Resource]] = {}
        self.asked: list[tuple[Watch, PushRequest | None]] = []

    def generate(
        self, _client: Client[None], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        self.asked.append((watch, push))
        existing = self.resources.get(watch.type_url, {})
        return Generated(
            resources=tuple(r for name, r in existing.items() if watch.covers(name)),
            removed=watch.names - existing.keys(),
        )

    def set(self, *resources: Resource) -> None:
        for resource in resources:
            self.resources.setdefault(resource.type_url, {})[resource.name] = resource

    def drop(self, type_url: str, *names: str) -> None:
        for name in names:
            del self.resources[type_url][name]


class Make:
    """Resources that differ in nothing but a number."""

    def cluster(self, name: str, *, change: int = 0, eds: bool = True) -> Resource:
        cluster: Any = cluster_pb2.Cluster(name=name)
        cluster.connect_timeout.seconds = 1 + change
        if eds:
            cluster.type = cluster_pb2.Cluster.EDS
            cluster.eds_cluster_config.eds_config.ads.SetInParent()
        return Resource.pack(cluster, name=name)

    def endpoints(self, name: str, *, change: int = 0) -> Resource:
        message: Any = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        address = message.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
        address.address, address.port_value = "127.0.0.1", 1000 + change
        return Resource.pack(message, name=name)

    def listener(self, name: str, *, change: int = 0) -> Resource:
        return Resource.pack(
            listener_pb2.Listener(name=name, stat_prefix=f"change_{change}"), name=name
        )

    def route(self, name: str, *, change: int = 0) -> Resource:
        message: Any = route_pb2.RouteConfiguration(name=name)
        message.virtual_hosts.add(name=f"change-{change}", domains=["*"])
        return Resource.pack(message, name=name)


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture
def state() -> State:
    return State()


ALL_TYPES = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE, types.SECRET)

Running = Callable[..., AbstractAsyncContextManager[XdsServer[None]]]


@pytest.fixture
def running(state: State) -> Running:
    """Start a server over `state`, ready unless told otherwise."""

    @asynccontextmanager
    async def start(
        *, config: ServerConfig | None = None, ready: bool = True, **options: Any
    ) -> AsyncIterator[XdsServer[None]]:
        server: XdsServer[None] = XdsServer(
            dict.fromkeys(ALL_TYPES, state),
            admit=options.pop("admit", admit_all),
            config=config or ServerConfig(debounce_quiet_s=0.01),
            **options,
        )
        if ready:
            server.mark_ready()
        async with server.running():
            yield server

    return start
