"""The Istio kinds that this control plane reads, field by field.

Source: Istio's API, networking/v1 (ServiceEntry, WorkloadEntry), security/v1
(PeerAuthentication) and mesh/v1alpha1 (MeshConfig). Names in YAML are camelCase.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from mesh_configfile import Duration

PortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Labels: TypeAlias = dict[str, str]


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Metadata(_Shape, frozen=True):
    """The part of Kubernetes object metadata that has a meaning here, and what may stand beside."""

    name: Text
    namespace: Text = "default"
    labels: Labels = {}
    annotations: Labels = {}
    creation_timestamp: str | None = None
    generation: Any = None
    resource_version: Any = None
    uid: Any = None
    managed_fields: Any = None
    owner_references: Any = None
    finalizers: Any = None


class Location(StrEnum):
    """Whether a service is part of the mesh."""

    MESH_EXTERNAL = "MESH_EXTERNAL"
    MESH_INTERNAL = "MESH_INTERNAL"


class Resolution(StrEnum):
    """How a service's name becomes addresses."""

    NONE = "NONE"
    STATIC = "STATIC"
    DNS = "DNS"
    DNS_ROUND_ROBIN = "DNS_ROUND_ROBIN"


class ServicePort(_Shape, frozen=True):
    """A port that clients name."""

    number: PortNumber
    name: Text
    protocol: str = ""
    target_port: PortNumber | None = None


class Selector(_Shape, frozen=True):
    """Workloads by their labels (ServiceEntry's workloadSelector)."""

    labels: Labels = {}


class MatchLabels(_Shape, frozen=True):
    """Workloads by their labels (PeerAuthentication's selector)."""

    match_labels: Labels = {}


class WorkloadEntrySpec(_Shape, frozen=True):
    """One workload: an endpoint of the services that select it."""

    address: str = ""
    ports: dict[str, PortNumber] = {}
    labels: Labels = {}
    network: str = ""
    locality: str = ""
    weight: Annotated[int, msgspec.Meta(ge=0, le=4294967295)] = 0
    service_account: str = ""


class ServiceEntrySpec(_Shape, frozen=True):
    """A service by its host names."""

    hosts: tuple[Text, ...]
    addresses: tuple[Text, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    location: Location = Location.MESH_EXTERNAL
    resolution: Resolution = Resolution.NONE
    endpoints: tuple[WorkloadEntrySpec, ...] = ()
    workload_selector: Selector | None = None
    export_to: tuple[Text, ...] = ()
    subject_alt_names: tuple[Text, ...] = ()


class MutualTlsMode(StrEnum):
    """What a workload accepts."""

    UNSET = "UNSET"
    DISABLE = "DISABLE"
    PERMISSIVE = "PERMISSIVE"
    STRICT = "STRICT"


class MutualTls(_Shape, frozen=True):
    """A mode, as PeerAuthentication holds it."""

    mode: MutualTlsMode = MutualTlsMode.UNSET


class PeerAuthenticationSpec(_Shape, frozen=True):
    """Which inbound connections a mesh, a namespace or a set of workloads accepts."""

    selector: MatchLabels | None = None
    mtls: MutualTls = MutualTls()
    port_level_mtls: dict[str, MutualTls] = {}


class TrafficPolicyMode(StrEnum):
    """What happens to requests for hosts that the mesh does not know."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"


class OutboundTrafficPolicy(_Shape, frozen=True):
    """MeshConfig's outboundTrafficPolicy."""

    mode: TrafficPolicyMode = TrafficPolicyMode.ALLOW_ANY


class LogEncoding(StrEnum):
    """How access log lines are written."""

    TEXT = "TEXT"
    JSON = "JSON"


class MeshConfigSpec(_Shape, frozen=True):
    """Mesh-wide settings, with Istio's defaults."""

    trust_domain: Text | None = None
    trust_domain_aliases: tuple[Text, ...] = ()
    root_namespace: Text = "istio-system"
    connect_timeout: Duration = Duration(10)
    outbound_traffic_policy: OutboundTrafficPolicy = OutboundTrafficPolicy()
    enable_auto_mtls: bool = True
    proxy_http_port: PortNumber | None = None
    access_log_file: str = ""
    access_log_format: str = ""
    access_log_encoding: LogEncoding = LogEncoding.TEXT
    dns_refresh_rate: Duration = Duration(5)
    default_service_export_to: tuple[Text, ...] = ("*",)
    default_config: dict[str, Any] = {}
    """Settings of the agents; only discoveryAddress and drainDuration matter to the control
    plane."""
