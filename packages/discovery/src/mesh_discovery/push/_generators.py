"""The generators of xDS, one a type: each returns nothing for a push that leaves its type alone."""

from collections.abc import Callable, Mapping

from envoy_config import Proxy, PushContext
from envoy_config.changes import Part
from mesh_discovery.push._affected import touched_hosts, touches
from mesh_discovery.push._proxy_configs import ProxyConfigGenerator
from mesh_discovery.push._proxyless_generators import proxyless_generators
from mesh_discovery.push._secrets import SecretsGenerator
from mesh_discovery.push._served_context import ServedContext
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
        type_urls.CLUSTER: _AllOfAType(served, PushContext.clusters, Part.CLUSTERS),
        type_urls.ENDPOINT: _Endpoints(served),
        type_urls.LISTENER: _AllOfAType(served, PushContext.listeners, Part.LISTENERS),
        type_urls.ROUTE: _Named(served, PushContext.routes, Part.ROUTES),
    }
    proxyless = proxyless_generators(served)
    of_agents: Mapping[str, Generator[Proxy]] = {
        type_urls.NAME_TABLE: _AllOfAType(served, PushContext.names, Part.NAMES),
        type_urls.SECRET: SecretsGenerator(served, over_plaintext=plaintext_secrets),
        type_urls.EXTENSION_CONFIG: _Extensions(served, over_plaintext=plaintext_secrets),
        type_urls.PROXY_CONFIG: ProxyConfigGenerator(served, bundle_pem),
    }
    chosen = {
        url: Mux({_ENVOY: of_envoys[url], _PROXYLESS: proxyless[url]}, choose=_choose)
        for url in of_envoys
    }
    return {**chosen, **of_agents}


def _choose(client: Client[Proxy], _type_url: str) -> str:
    return _PROXYLESS if client.context.is_proxyless else _ENVOY


class _AllOfAType:
    """All clusters or listeners of a proxy, or its name table."""

    def __init__(
        self,
        served: ServedContext,
        resources_of: Callable[[PushContext, Proxy], Generated | None],
        part: Part,
    ) -> None:
        self._served = served
        self._resources_of = resources_of
        self._part = part

    def generate(
        self,
        client: Client[Proxy],
        watch: Watch,  # noqa: ARG002
        push: PushRequest | None,
    ) -> Generated | None:
        proxy, context = client.context, self._served.current
        if push is not None and not touches(push, self._part, proxy, context):
            return None
        return self._resources_of(context, proxy)


class _Named:
    """The routes that a proxy asks for by their names."""

    def __init__(
        self,
        served: ServedContext,
        resources_of: Callable[[PushContext, Proxy, frozenset[str]], Generated],
        part: Part,
    ) -> None:
        self._served = served
        self._resources_of = resources_of
        self._part = part

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        proxy, context = client.context, self._served.current
        if push is not None and not touches(push, self._part, proxy, context):
            return None
        return self._resources_of(context, proxy, watch.names)


class _Extensions:
    """The configurations of extensions (ECDS) that a proxy asks for by their names."""

    def __init__(self, served: ServedContext, *, over_plaintext: bool) -> None:
        """over_plaintext: proxies that prove nothing get the secrets of registries too."""
        self._served = served
        self._over_plaintext = over_plaintext

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        proxy, context = client.context, self._served.current
        if push is not None and not touches(push, Part.EXTENSIONS, proxy, context):
            return None
        return context.extensions(
            proxy, watch.names, client.identities, believed=self._over_plaintext
        )


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
        hosts = touched_hosts(push, Part.ENDPOINTS, client.context) if push is not None else None
        if hosts is not None:
            names = self._served.current.clusters_of(hosts, names)
            if not names:
                return None
        if push is not None and not push.incremental:
            # Envoy uses a cluster that is gone until its routes have changed, and drains with it.
            names = self._served.current.known_clusters(client.context, names)
            if not names:
                return None
        return self._served.current.endpoints(client.context, names)
