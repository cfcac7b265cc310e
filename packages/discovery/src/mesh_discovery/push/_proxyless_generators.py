"""The generators for gRPC programs without an Envoy, which ask for everything by name."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from envoy_config import Proxy, ProxylessContext, parse_outbound_cluster
from mesh_discovery.push._affected import (
    changed_hosts,
    touches_own_endpoints,
    touches_routes,
    touches_rules,
)
from mesh_discovery.push._served_context import ServedContext
from mesh_protos import type_urls
from xds_server import Client, Generated, Generator, PushRequest, Watch

_Find: TypeAlias = Callable[[ProxylessContext, Proxy, frozenset[str]], Generated]


def proxyless_generators(served: ServedContext) -> Mapping[str, Generator[Proxy]]:
    """Return the generator of each type that gRPC's clients know."""
    return {
        type_urls.LISTENER: _Listeners(served),
        type_urls.ROUTE: _ByCluster(served, ProxylessContext.routes, endpoints=False),
        type_urls.CLUSTER: _ByCluster(served, ProxylessContext.clusters, whole=True),
        type_urls.ENDPOINT: _ByCluster(served, ProxylessContext.endpoints),
    }


class _Listeners:
    """The listeners asked for: after a change of services, policies, or own endpoints."""

    def __init__(self, served: ServedContext) -> None:
        self._served = served

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        proxy = client.context
        if push is not None and push.incremental and not touches_own_endpoints(proxy, push):
            return None
        return self._served.current.proxyless.listeners(proxy, watch.names)


class _ByCluster:
    """Routes, clusters or endpoints, named by a cluster: after a change of service or policies.

    whole: a response has to have all that the client watches, or it takes the rest for gone.
    endpoints: whether a change of endpoints alone matters. It does for clusters, as endpoints
    decide whether mutual TLS is spoken. Of routes it does not, and rules concern any of them.
    """

    def __init__(
        self, served: ServedContext, find: _Find, *, whole: bool = False, endpoints: bool = True
    ) -> None:
        self._served = served
        self._find = find
        self._whole = whole
        self._endpoints = endpoints

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        names = watch.names
        if push is not None:
            if not self._endpoints and (push.incremental or not touches_routes(push)):
                return None
            about_any = not self._endpoints and touches_rules(push)
            changed = names if about_any else _of_hosts(names, changed_hosts(push))
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
