"""The generators of xDS, one a type: each returns nothing for a push that leaves its type alone."""

from collections.abc import Callable, Mapping

from envoy_config import Proxy, PushContext
from mesh_discovery.push._affected import (
    changed_hosts,
    touches_clusters,
    touches_extensions,
    touches_known_services,
    touches_listeners,
    touches_own_endpoints,
    touches_routes,
)
from mesh_discovery.push._proxyless_generators import proxyless_generators
from mesh_discovery.push._secrets import SecretsGenerator
from mesh_discovery.push._served_context import ServedContext
from mesh_discovery.push._trust_bundle import TrustBundleGenerator
from mesh_model import Scope
from mesh_protos import type_urls
from xds_server import Client, Generated, Generator, Mux, PushRequest, Watch

_ENVOY, _PROXYLESS = "envoy", "proxyless"


def generators(
    served: ServedContext, *, bundle_pem: Callable[[], bytes], plaintext_secrets: bool = False
) -> Mapping[str, Generator[Proxy]]:
    """Return the generator of each type, to be given to an `XdsServer`.

    plaintext_secrets: gateways that prove nothing get the keys of Secrets too.
    """
    of_envoys: Mapping[str, Generator[Proxy]] = {
        type_urls.CLUSTER: _AllOfAType(served, PushContext.clusters, _touches_clusters),
        type_urls.ENDPOINT: _Endpoints(served),
        type_urls.LISTENER: _AllOfAType(served, PushContext.listeners, _touches_listeners),
        type_urls.ROUTE: _Routes(served),
    }
    proxyless = proxyless_generators(served)
    of_agents: Mapping[str, Generator[Proxy]] = {
        type_urls.NAME_TABLE: _AllOfAType(served, PushContext.names, touches_known_services),
        type_urls.SECRET: SecretsGenerator(served, over_plaintext=plaintext_secrets),
        type_urls.EXTENSION_CONFIG: _Extensions(served),
        type_urls.PROXY_CONFIG: TrustBundleGenerator(bundle_pem),
    }
    chosen = {
        url: Mux({_ENVOY: of_envoys[url], _PROXYLESS: proxyless[url]}, choose=_choose)
        for url in of_envoys
    }
    return {**chosen, **of_agents}


def _choose(client: Client[Proxy], _type_url: str) -> str:
    return _PROXYLESS if client.context.is_proxyless else _ENVOY


class _AllOfAType:
    """All clusters or listeners of a proxy, or its name table: after changes that may touch them.

    They may touch all of these if they concern what the proxy's own workload serves.
    """

    def __init__(
        self,
        served: ServedContext,
        resources_of: Callable[[PushContext, Proxy], Generated | None],
        touches: Callable[[PushRequest, Scope], bool],
    ) -> None:
        """touches: tells whether a change may touch the type, where no own endpoints changed."""
        self._served = served
        self._resources_of = resources_of
        self._touches = touches

    def generate(
        self,
        client: Client[Proxy],
        watch: Watch,  # noqa: ARG002
        push: PushRequest | None,
    ) -> Generated | None:
        proxy, context = client.context, self._served.current
        if (
            push is not None
            and not touches_own_endpoints(proxy, push)
            and not self._touches(push, context.scope(proxy))
        ):
            return None
        return self._resources_of(context, proxy)


def _touches_clusters(push: PushRequest, scope: Scope) -> bool:
    return not push.incremental and touches_clusters(push, scope)


def _touches_listeners(push: PushRequest, _scope: Scope) -> bool:
    return not push.incremental and touches_listeners(push)


class _Endpoints:
    def __init__(self, served: ServedContext) -> None:
        self._served = served

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        names = watch.names
        if push is None and client.delta:
            # The protocol tells of those that there are none of, at the cost of their names.
            names = self._served.current.known_clusters(client.context, names)
        if push is not None and (hosts := changed_hosts(push)) is not None:
            names = self._served.current.clusters_of(hosts, names)
            if not names:
                return None
        if push is not None and not push.incremental:
            # Envoy uses a cluster that is gone until its routes have changed, and drains with it.
            names = self._served.current.known_clusters(client.context, names)
            if not names:
                return None
        return self._served.current.endpoints(client.context, names)


class _Routes:
    def __init__(self, served: ServedContext) -> None:
        self._served = served

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        if push is not None and (push.incremental or not touches_routes(push)):
            return None
        return self._served.current.routes(client.context, watch.names)


class _Extensions:
    """The configurations of extensions that filters get by their names (ECDS)."""

    def __init__(self, served: ServedContext) -> None:
        self._served = served

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        if push is not None and (push.incremental or not touches_extensions(push)):
            return None
        return self._served.current.extensions(client.context, watch.names)
