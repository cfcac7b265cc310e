"""Matches: the objects of Envoy's configuration that a patch changes.

Source: Istio's API, networking/v1alpha3.
"""

from enum import StrEnum

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields


class Context(StrEnum):
    """The proxies and directions that a patch is for."""

    ANY = "ANY"
    SIDECAR_INBOUND = "SIDECAR_INBOUND"
    SIDECAR_OUTBOUND = "SIDECAR_OUTBOUND"
    GATEWAY = "GATEWAY"
    WAYPOINT = "WAYPOINT"
    """Waypoints, of which there are none here."""


class ProxyMatch(SpecFields, frozen=True):
    """A condition on the node metadata of proxies."""

    proxy_version: str = ""
    """A regular expression, which matches a part of ISTIO_VERSION in the node metadata."""
    metadata: Labels = msgspec.field(default_factory=dict)


class SubFilterMatch(SpecFields, frozen=True):
    """An HTTP filter."""

    name: str = ""


class FilterMatch(SpecFields, frozen=True):
    """A network filter."""

    name: str = ""
    sub_filter: SubFilterMatch | None = None


class FilterChainMatch(SpecFields, frozen=True):
    """A filter chain of a listener."""

    name: str = ""
    sni: str = ""
    transport_protocol: str = ""
    application_protocols: str = ""
    """Separated by commas; the chain must match all of them."""
    filter: FilterMatch | None = None
    destination_port: int = 0
    transport_socket: str = ""
    """The name of what reads the bytes; without one in a chain it is that of plaintext."""


class ListenerMatch(SpecFields, frozen=True):
    """A listener, and what is in it."""

    port_number: PortNumber | None = None
    port_name: str = ""
    filter_chain: FilterChainMatch | None = None
    listener_filter: str = ""
    name: str = ""


class RouteAction(StrEnum):
    """The action of a route."""

    ANY = "ANY"
    ROUTE = "ROUTE"
    REDIRECT = "REDIRECT"
    DIRECT_RESPONSE = "DIRECT_RESPONSE"


class RouteMatch(SpecFields, frozen=True):
    """A route of a virtual host."""

    name: str = ""
    action: RouteAction = RouteAction.ANY


class VirtualHostMatch(SpecFields, frozen=True):
    """A virtual host of a route configuration."""

    name: str = ""
    domain_name: str = ""
    route: RouteMatch | None = None


class RouteConfigurationMatch(SpecFields, frozen=True):
    """A route configuration, and what is in it."""

    port_number: PortNumber | None = None
    port_name: str = ""
    gateway: str = ""
    vhost: VirtualHostMatch | None = None
    name: str = ""


class ClusterMatch(SpecFields, frozen=True):
    """A cluster."""

    port_number: PortNumber | None = None
    service: str = ""
    subset: str = ""
    name: str = ""


class WaypointRouteMatch(SpecFields, frozen=True):
    """A route of a waypoint."""

    name: str = ""


class WaypointMatch(SpecFields, frozen=True):
    """The part of a waypoint that a patch changes."""

    filter: FilterMatch | None = None
    port_number: PortNumber | None = None
    route: WaypointRouteMatch | None = None


class ObjectMatch(SpecFields, frozen=True):
    """The objects that a patch changes; an empty match selects every object of `applyTo`."""

    context: Context = Context.ANY
    proxy: ProxyMatch | None = None
    listener: ListenerMatch | None = None
    route_configuration: RouteConfigurationMatch | None = None
    cluster: ClusterMatch | None = None
    waypoint: WaypointMatch | None = None
