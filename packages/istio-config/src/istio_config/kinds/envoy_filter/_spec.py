"""The fields of an EnvoyFilter.

Source: Istio's API, networking/v1alpha3.
"""

from enum import StrEnum

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Unchecked
from istio_config.kinds.selection import Selection, TargetRef
from istio_config.kinds.service_entry import Selector


class ApplyTo(StrEnum):
    """The objects of Envoy's configuration that a patch is for."""

    LISTENER = "LISTENER"
    LISTENER_FILTER = "LISTENER_FILTER"
    FILTER_CHAIN = "FILTER_CHAIN"
    NETWORK_FILTER = "NETWORK_FILTER"
    HTTP_FILTER = "HTTP_FILTER"
    ROUTE_CONFIGURATION = "ROUTE_CONFIGURATION"
    VIRTUAL_HOST = "VIRTUAL_HOST"
    HTTP_ROUTE = "HTTP_ROUTE"
    CLUSTER = "CLUSTER"
    EXTENSION_CONFIG = "EXTENSION_CONFIG"
    BOOTSTRAP = "BOOTSTRAP"


class Operation(StrEnum):
    """The change that a patch makes."""

    MERGE = "MERGE"
    MERGE_AND_REPLACE_LIST = "MERGE_AND_REPLACE_LIST"
    """As MERGE, but lists are replaced."""
    ADD = "ADD"
    REMOVE = "REMOVE"
    INSERT_BEFORE = "INSERT_BEFORE"
    INSERT_AFTER = "INSERT_AFTER"
    INSERT_FIRST = "INSERT_FIRST"
    REPLACE = "REPLACE"

    @property
    def is_merge(self) -> bool:
        """Whether the value says a part of an object, and not all of it."""
        return self in (Operation.MERGE, Operation.MERGE_AND_REPLACE_LIST)

    @property
    def is_insert(self) -> bool:
        """Whether the value is put at a certain place among others."""
        return self in (Operation.INSERT_BEFORE, Operation.INSERT_AFTER, Operation.INSERT_FIRST)


class Context(StrEnum):
    """The sort of proxies, and the side of sidecars, that a patch is for."""

    ANY = "ANY"
    SIDECAR_INBOUND = "SIDECAR_INBOUND"
    SIDECAR_OUTBOUND = "SIDECAR_OUTBOUND"
    GATEWAY = "GATEWAY"


class FilterClass(StrEnum):
    """The phase that a filter is added in."""

    UNSPECIFIED = "UNSPECIFIED"
    AUTHN = "AUTHN"
    AUTHZ = "AUTHZ"
    STATS = "STATS"


class ProxyMatch(SpecFields, frozen=True):
    """Proxies by their nodes."""

    proxy_version: str = ""
    """A regular expression for a part of the node metadata ISTIO_VERSION."""
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
    """Separated by commas; the chain must be for all of them."""
    filter: FilterMatch | None = None
    destination_port: int = 0


class ListenerMatch(SpecFields, frozen=True):
    """A listener, and what is in it."""

    port_number: PortNumber | None = None
    port_name: str = ""
    filter_chain: FilterChainMatch | None = None
    listener_filter: str = ""
    name: str = ""


class RouteAction(StrEnum):
    """The answer that a route makes."""

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


class ObjectMatch(SpecFields, frozen=True):
    """The objects that a patch changes: all of its sort, unless something is said."""

    context: Context = Context.ANY
    proxy: ProxyMatch | None = None
    listener: ListenerMatch | None = None
    route_configuration: RouteConfigurationMatch | None = None
    cluster: ClusterMatch | None = None


class PatchChange(SpecFields, frozen=True):
    """The change of a patch; `value` is plain data of the message that the patch is for."""

    operation: Operation
    value: Unchecked = None
    filter_class: FilterClass = FilterClass.UNSPECIFIED


class ConfigPatch(SpecFields, frozen=True):
    """One patch."""

    apply_to: ApplyTo
    patch: PatchChange
    match: ObjectMatch = ObjectMatch()


class EnvoyFilterSpec(SpecFields, frozen=True):
    """Patches for the proxies of some workloads."""

    workload_selector: Selector | None = None
    target_refs: tuple[TargetRef, ...] = ()
    config_patches: tuple[ConfigPatch, ...] = ()
    priority: int = 0
    """Patches of lower ones come first."""

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        labels = self.workload_selector.labels if self.workload_selector is not None else {}
        return Selection(labels, tuple(each.name for each in self.target_refs))
