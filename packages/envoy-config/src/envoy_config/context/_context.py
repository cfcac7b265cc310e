"""The push context: one model, and the resources that were generated from it so far.

Resources are kept by what they depend on (`_shapes`), and a new context takes over those that the
change has not touched. What a proxy is to have is planned first (`plan`), then generated
(`generate`). A class for each type holds its caches; this one puts them together.
"""

from collections.abc import Mapping

from envoy_config.changes._model_change import ModelChange
from envoy_config.context._clients import Clients
from envoy_config.context._clusters import Clusters
from envoy_config.context._endpoints import Endpoints
from envoy_config.context._extensions import Extensions
from envoy_config.context._listeners import Listeners
from envoy_config.context._name_tables import NameTables
from envoy_config.context._proxyless import ProxylessContext
from envoy_config.context._redirected_listeners import RedirectedListeners
from envoy_config.context._routers import Routers
from envoy_config.context._scopes import Scopes
from envoy_config.context._secrets import GatewaySecrets
from envoy_config.context._shapes import (
    ClusterShape,
    EndpointShape,
    NameTableShape,
    RouteHeaders,
    RouteShape,
)
from envoy_config.context.patched._patched import Patched
from envoy_config.context.routes._configurations import Routes
from envoy_config.patch._failures import Failure
from envoy_config.plan._client import NOWHERE, Location
from envoy_config.plan._inbound import InboundPlan
from envoy_config.plan._outbound import Conflict, OutboundPlan
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.gateway._servers import LeftOut
from mesh_model import MeshModel, Scope, Service
from xds_server import Generated

NOTHING = Generated(resources=())


class PushContext:
    """Everything that generators answer from, until the next push replaces it."""

    def __init__(self, model: MeshModel, *, before: "PushContext | None" = None) -> None:
        self.model = model
        self._scopes = Scopes(model)
        self._clients = Clients(model)
        self._clusters = Clusters(model, self._scopes, self._clients)
        self._endpoints: Endpoints = Endpoints(
            model,
            self._scopes,
            self._clients,
            before._endpoints.cluster_names if before is not None else None,
        )
        self._listeners = Listeners(model, self._scopes)
        self._redirected_listeners = RedirectedListeners(model, self._scopes)
        self._routes = Routes(model, self._scopes)
        self._routers = Routers(model, self._scopes)
        self.secrets = GatewaySecrets(model)
        self._extensions = Extensions(model)
        self._patched: Patched = Patched(model, before._patched if before is not None else None)
        self._name_tables = NameTables(self._scopes, self._listeners)
        self.proxyless = ProxylessContext(model, self._scopes)
        if before is not None:
            self._adopt(before, ModelChange(old=before.model, new=model))

    def _adopt(self, before: "PushContext", change: ModelChange) -> None:
        """Take over what the context before generated and this one would generate again."""
        change.new.facts.take_over(change.old.facts, change.services)
        self._scopes.adopt(before._scopes, change)
        self._clients.adopt(before._clients, change)
        self._clusters.adopt(before._clusters, change)
        held = before._clusters.scopes_held()
        self._endpoints.adopt(before._endpoints, change, held)
        self._redirected_listeners.adopt(before._redirected_listeners, change, held)
        self._routes.adopt(before._routes, change, held)
        self._routers.adopt(before._routers, change)
        self._name_tables.adopt(before._name_tables, change)

    # What the proxies of the model get, each all that it has asked for.

    def clusters(self, proxy: Proxy) -> Generated:
        """Return all clusters of a proxy."""
        redirected = self._redirected_listeners.inbound(proxy) if proxy.is_redirected else None
        ports = self.inbound(proxy).ports if redirected is None else ()
        shape = ClusterShape(
            self._scopes.key_of(proxy),
            self._location(proxy),
            ports,
            redirected,
            proxy.client_files,
            passes_mesh_tls=not proxy.is_sidecar and self._routers.passes_mesh_tls(proxy),
        )
        plain = self._clusters.for_shape(shape)
        return self._patched.clusters(proxy, plain) if self._patched.has_patches else plain

    def endpoints(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the load assignments of these clusters; an unknown one's is empty."""
        return self._endpoints.for_shape(
            EndpointShape(self._scopes.key_of(proxy), self._location(proxy), wanted)
        )

    def known_clusters(self, proxy: Proxy, wanted: frozenset[str]) -> frozenset[str]:
        """Return those of these clusters that a proxy has, and not only had."""
        return self._endpoints.known(
            EndpointShape(self._scopes.key_of(proxy), self._location(proxy), wanted)
        )

    def clusters_of(self, hosts: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
        """Return those of the wanted clusters that lead to one of the hosts."""
        return self._endpoints.clusters_of(hosts, wanted)

    def listeners(self, proxy: Proxy) -> Generated:
        """Return all listeners of a proxy."""
        plain = self._plain_listeners(proxy)
        return self._patched.listeners(proxy, plain) if self._patched.has_patches else plain

    def routes(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the route configurations of these names; one that can't be is left out."""
        plain = self._plain_routes(proxy, wanted)
        return self._patched.routes(proxy, plain) if self._patched.has_patches else plain

    def extensions(
        self,
        proxy: Proxy,
        wanted: frozenset[str],
        identities: tuple[str, ...] = (),
        *,
        believed: bool = False,
    ) -> Generated:
        """Return the configurations of extensions of these names, and which there are none of.

        identities: those that the proxy has proved, by which it gets the secrets of registries.
        believed: without any, it is whom its node says.
        """
        own = self._extensions.resources(proxy, wanted, identities, believed=believed)
        return self._patched.extensions(proxy, wanted, own)

    def _plain_listeners(self, proxy: Proxy) -> Generated:
        if not proxy.is_sidecar:
            return self._routers.listeners(proxy)
        if self.model.mesh_config.proxy_listen_port <= 0:
            return NOTHING
        if proxy.is_redirected:
            return self._redirected_listeners.for_proxy(proxy)
        return self._listeners.for_proxy(proxy)

    def _plain_routes(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        if not proxy.is_sidecar:
            return self._routers.routes(proxy, wanted)
        settings = proxy.settings.over(self.model.mesh_config.default_config)
        return self._routes.for_shape(
            RouteShape(
                self._scopes.key_of(proxy),
                proxy.domain,
                wanted,
                RouteHeaders.from_config(settings.config),
            )
        )

    def names(self, proxy: Proxy) -> Generated:
        """Return the name table of a proxy; a gateway whose agent answers no DNS has none."""
        naming = proxy.naming
        if not proxy.is_sidecar and not naming.answers_dns:
            return NOTHING
        outbound = self._listeners.outbound_shape(proxy) if naming.own_listeners else None
        return self._name_tables.for_shape(
            NameTableShape(self._scopes.key_of(proxy), proxy.domain, naming, outbound)
        )

    # What they know, and are planned to have.

    def scope(self, proxy: Proxy) -> Scope:
        """Return the part of the mesh that a proxy knows."""
        return self._scopes.for_proxy(proxy)

    def visible(self, namespace: str) -> Mapping[str, Service]:
        """Return the services that are exported to a namespace, by host."""
        return self._scopes.visible(namespace)

    def inbound(self, proxy: Proxy) -> InboundPlan:
        """Return where a proxy accepts connections for its workload."""
        return self._listeners.inbound(proxy)

    def outbound(self, proxy: Proxy) -> OutboundPlan:
        """Return where a proxy listens for its workload's own calls."""
        return self._listeners.outbound(self._listeners.outbound_shape(proxy))

    @property
    def conflicts(self) -> frozenset[Conflict]:
        """The services that found no place to listen, for the proxies served so far."""
        return self._listeners.conflicts | self._redirected_listeners.conflicts

    @property
    def only_by_http_proxy(self) -> frozenset[Conflict]:
        """The services that are reached through the HTTP proxy alone, for the proxies so far."""
        return self._listeners.only_by_http_proxy

    @property
    def left_out(self) -> frozenset[LeftOut]:
        """The servers of Gateways that found no place, for the routers served so far."""
        return self._routers.left_out

    @property
    def failed_patches(self) -> tuple[Failure, ...]:
        """The patches that proxies go without, for those served so far."""
        return self._patched.failures

    def _location(self, proxy: Proxy) -> Location:
        if not self.model.uses_location:
            return NOWHERE
        return proxy.location if self.model.uses_nodes else proxy.location._replace(node="")
