"""Proxy shapes: all that the resources of one type depend on in a proxy.

Proxies of one shape are given the very same resources, serialised once.
"""

from typing import NamedTuple

from envoy_config.plan._client import ClientFiles, Location
from envoy_config.plan._inbound import InboundPort
from envoy_config.plan._proxy import Naming
from envoy_config.plan._proxy_settings import ProxySettings
from envoy_config.plan.policies._inbound_policies import NO_POLICIES, InboundPolicies
from envoy_config.plan.redirected._inbound import RedirectedInbound
from envoy_config.plan.redirected._listeners import IpVersions
from istio_config.kinds.mesh_config import ProxyConfig
from mesh_model import ScopeKey


class OutboundShape(NamedTuple):
    """The part of a proxy that its outbound listeners depend on.

    taken: addresses and ports where they can't be. own: hosts and ports that the workload answers
    there itself.
    """

    scope: ScopeKey
    address: str
    naming: Naming
    taken: frozenset[tuple[str, int]]
    own: frozenset[tuple[str, int]]


class RedirectedOutboundShape(NamedTuple):
    """The part of a redirected proxy that its outbound listeners are planned by."""

    scope: ScopeKey
    ips: IpVersions
    naming: Naming


class RedirectedListenerShape(NamedTuple):
    """The part of a redirected proxy that its listeners depend on.

    own: its address, if endpoints there have listeners that are not for it. settings: of its own
    and of the mesh. policies: those that it enforces.
    """

    outbound: RedirectedOutboundShape
    inbound: RedirectedInbound
    own: frozenset[str]
    settings: ProxySettings
    policies: InboundPolicies = NO_POLICIES


class ClusterShape(NamedTuple):
    """The part of a proxy that its clusters depend on."""

    scope: ScopeKey
    location: Location
    inbound: tuple[InboundPort, ...]
    redirected: RedirectedInbound | None = None
    """Of a redirected proxy, which has no ports of the other sort."""
    files: ClientFiles | None = None
    passes_mesh_tls: bool = False
    """Whether it is a gateway that passes TLS of the mesh on, by clusters of their own."""


class ListenerShape(NamedTuple):
    """The part of a proxy that its listeners depend on; settings: of its own and of the mesh."""

    outbound: OutboundShape
    inbound: tuple[InboundPort, ...]
    settings: ProxySettings
    policies: InboundPolicies = NO_POLICIES


class EndpointShape(NamedTuple):
    """The part of a proxy and a subscription that load assignments depend on."""

    scope: ScopeKey
    location: Location
    clusters: frozenset[str]


class RouteHeaders(NamedTuple):
    """The headers that routes of a proxy set by themselves.

    counts_attempts: upstreams are sent how often a request was tried. forwards_host: they are sent
    the host of a request where another replaces it.
    """

    counts_attempts: bool = True
    forwards_host: bool = False

    @classmethod
    def from_config(cls, config: ProxyConfig) -> "RouteHeaders":
        """Return those that a proxy's settings ask for."""
        headers = config.proxy_headers
        if headers is None:
            return cls()
        attempts, host = headers.attempt_count, headers.x_forwarded_host
        return cls(
            counts_attempts=attempts is None or not attempts.disabled,
            forwards_host=host is not None and bool(host.enabled),
        )


class RouteShape(NamedTuple):
    """The part of a proxy and a subscription that route configurations depend on."""

    scope: ScopeKey
    domain: str
    names: frozenset[str]
    headers: RouteHeaders = RouteHeaders()


class NameTableShape(NamedTuple):
    """The part of a proxy that its name table depends on."""

    scope: ScopeKey
    domain: str
    naming: Naming
    outbound: OutboundShape | None
    """Of a proxy whose names lead to its own listeners."""

    @property
    def has_endpoint_addresses(self) -> bool:
        """Whether services without addresses may be known by those of their endpoints."""
        return not self.naming.own_listeners and not self.naming.ip_versions
