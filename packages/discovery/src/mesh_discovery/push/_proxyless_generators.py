"""The generators for gRPC programs without an Envoy, which ask for everything by name."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from envoy_config import Proxy, ProxylessContext, parse_outbound_cluster
from envoy_config.changes import Part
from mesh_discovery.push._affected import touched_hosts, touches
from mesh_discovery.push._served_context import ServedContext
from mesh_protos import type_urls
from xds_server import Client, Generated, Generator, PushRequest, Watch

_Find: TypeAlias = Callable[[ProxylessContext, Proxy, frozenset[str]], Generated]


def proxyless_generators(served: ServedContext) -> Mapping[str, Generator[Proxy]]:
    """Return the generator of each type that gRPC's clients know."""
    return {
        type_urls.LISTENER: _Listeners(served),
        type_urls.ROUTE: _ByCluster(served, ProxylessContext.routes, Part.ROUTES),
        type_urls.CLUSTER: _ByCluster(served, ProxylessContext.clusters, Part.CLUSTERS, whole=True),
        type_urls.ENDPOINT: _ByCluster(served, ProxylessContext.endpoints, Part.ENDPOINTS),
    }


class _Listeners:
    """The listeners asked for: after a change of services, policies, or own endpoints."""

    def __init__(self, served: ServedContext) -> None:
        self._served = served

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        proxy, context = client.context, self._served.current
        if push is not None and not touches(push, Part.LISTENERS, proxy, context):
            return None
        return context.proxyless.listeners(proxy, watch.names)


class _ByCluster:
    """Routes, clusters or endpoints, named by a cluster: after a change of service or policies.

    whole: a response has to have all that the client watches, or it takes the rest for gone.
    """

    def __init__(
        self, served: ServedContext, find: _Find, part: Part, *, whole: bool = False
    ) -> None:
        self._served = served
        self._find = find
        self._part = part
        self._whole = whole

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        names = watch.names
        if push is not None:
            changed = _of_hosts(names, touched_hosts(push, self._part, client.context))
            if not changed:
                return None
            if not self._whole:
                names = changed
        return self._find(self._served.current.proxyless, client.context, names)


def _of_hosts(names: frozenset[str], hosts: frozenset[str] | None) -> frozenset[str]:
    if hosts is None:
        return names
    return frozenset(
        name
        for name in names
        if (parsed := parse_outbound_cluster(name)) is not None and parsed.host in hosts
    )
