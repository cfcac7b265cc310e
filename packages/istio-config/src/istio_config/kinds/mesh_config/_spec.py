"""The fields of MeshConfig that have an effect, with Istio's defaults.

Source: Istio's API, mesh/v1alpha1.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.destination_rule import (
    ConnectionPool,
    LocalityLbSetting,
    OutlierDetection,
    TcpKeepalive,
)
from istio_config.kinds.fields import PortNumber, SpecFields, Text
from istio_config.kinds.mesh_config._proxy_config import ProxyConfig
from istio_config.kinds.mesh_config.providers import DefaultProviders, ExtensionProvider
from istio_config.kinds.virtual_service import HttpRetry
from mesh_configfile import Duration

_ListenPort: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=65535)]


class TrafficPolicyMode(StrEnum):
    """How requests for hosts that the mesh does not know are treated."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"
    ALLOW_ANY_DYNAMIC_DNS = "ALLOW_ANY_DYNAMIC_DNS"
    """As ALLOW_ANY, but requests go to what DNS has for the names of their hosts."""


class OutboundTrafficPolicy(SpecFields, frozen=True):
    """MeshConfig's outboundTrafficPolicy."""

    mode: TrafficPolicyMode = TrafficPolicyMode.ALLOW_ANY


class InboundTrafficPolicyMode(StrEnum):
    """Where a proxy reaches its own application."""

    PASSTHROUGH = "PASSTHROUGH"
    """At the address that clients connected to."""
    LOCALHOST = "LOCALHOST"


class InboundTrafficPolicy(SpecFields, frozen=True):
    """MeshConfig's inboundTrafficPolicy."""

    mode: InboundTrafficPolicyMode = InboundTrafficPolicyMode.PASSTHROUGH


class MeshH2UpgradePolicy(StrEnum):
    """Whether HTTP/1.1 becomes HTTP/2 between proxies, unless a DestinationRule says."""

    DO_NOT_UPGRADE = "DO_NOT_UPGRADE"
    UPGRADE = "UPGRADE"


class PathNormalizationType(StrEnum):
    """The changes to paths before they are compared."""

    DEFAULT = "DEFAULT"
    NONE = "NONE"
    BASE = "BASE"
    MERGE_SLASHES = "MERGE_SLASHES"
    DECODE_AND_MERGE_SLASHES = "DECODE_AND_MERGE_SLASHES"

    @property
    def normalizes(self) -> bool:
        """Whether `.` and `..` are resolved, by RFC 3986."""
        return self is not PathNormalizationType.NONE

    @property
    def merges_slashes(self) -> bool:
        """Whether `//` is `/`."""
        return self in (
            PathNormalizationType.MERGE_SLASHES,
            PathNormalizationType.DECODE_AND_MERGE_SLASHES,
        )

    @property
    def decodes_slashes(self) -> bool:
        """Whether %2F and %5C are slashes."""
        return self is PathNormalizationType.DECODE_AND_MERGE_SLASHES


class PathNormalization(SpecFields, frozen=True):
    """MeshConfig's pathNormalization."""

    normalization: PathNormalizationType = PathNormalizationType.DEFAULT


class LeastTlsVersion(StrEnum):
    """The oldest version of TLS that is accepted."""

    TLS_AUTO = "TLS_AUTO"
    TLSV1_2 = "TLSV1_2"
    TLSV1_3 = "TLSV1_3"


class MeshTls(SpecFields, frozen=True):
    """Versions, ciphers and curves of TLS."""

    min_protocol_version: LeastTlsVersion = LeastTlsVersion.TLS_AUTO
    cipher_suites: tuple[Text, ...] = ()
    ecdh_curves: tuple[Text, ...] = ()


class DefaultTrafficPolicy(SpecFields, frozen=True):
    """Limits of connections to services for which no DestinationRule sets any."""

    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None


class ServiceSettings(SpecFields, frozen=True):
    """MeshConfig's settings of some services."""

    cluster_local: bool = False
    """Clients reach only the endpoints of their own cluster."""


class SettingsOfHosts(SpecFields, frozen=True):
    """Settings, and the hosts that they are for."""

    settings: ServiceSettings = ServiceSettings()
    hosts: tuple[Text, ...] = ()


class IngressControllerMode(StrEnum):
    """Which of Kubernetes' Ingresses are served, of those that name no IngressClass object."""

    OFF = "OFF"
    """None by their annotation."""
    DEFAULT = "DEFAULT"
    """Those with the annotation of `ingressClass`, and those that name no class."""
    STRICT = "STRICT"
    """Those with the annotation of `ingressClass`."""


class LogEncoding(StrEnum):
    """How access log lines are written."""

    TEXT = "TEXT"
    JSON = "JSON"


class MeshConfigSpec(SpecFields, frozen=True):
    """Mesh-wide settings, with Istio's defaults."""

    trust_domain: Text | None = None
    trust_domain_aliases: tuple[Text, ...] = ()
    root_namespace: Text = "istio-system"
    connect_timeout: Duration = Duration(10)
    protocol_detection_timeout: Duration = Duration(0)
    """How long a proxy waits for the first bytes of a connection to detect its protocol; 0 means
    for ever."""
    dns_refresh_rate: Duration = Duration(60)
    tcp_keepalive: TcpKeepalive | None = None
    h2_upgrade_policy: MeshH2UpgradePolicy = MeshH2UpgradePolicy.DO_NOT_UPGRADE
    outbound_traffic_policy: OutboundTrafficPolicy = OutboundTrafficPolicy()
    inbound_traffic_policy: InboundTrafficPolicy = InboundTrafficPolicy()
    enable_auto_mtls: bool = True
    mesh_mtls: MeshTls = msgspec.field(name="meshMTLS", default=MeshTls())
    tls_defaults: MeshTls = MeshTls()
    """For TLS other than ISTIO_MUTUAL: SIMPLE and MUTUAL, at gateways and to services."""
    proxy_listen_port: _ListenPort = 15001
    """The port that the workload's connections are redirected to; 0 or less: no listeners."""
    proxy_inbound_listen_port: PortNumber = 15006
    proxy_http_port: PortNumber | None = None
    access_log_file: str = ""
    access_log_format: str = ""
    access_log_encoding: LogEncoding = LogEncoding.TEXT
    enable_envoy_access_log_service: bool = False
    """Whether logs go to the service in proxies' bootstraps, `envoyAccessLogService`, too."""
    disable_envoy_listener_log: bool = False
    """Whether connections that no filter chain takes are not logged."""
    enable_tracing: bool = True
    """Whether proxies whose bootstrap has a tracer use it where no provider is named."""
    default_service_export_to: tuple[Text, ...] = ("*",)
    default_virtual_service_export_to: tuple[Text, ...] = ("*",)
    default_destination_rule_export_to: tuple[Text, ...] = ("*",)
    locality_lb_setting: LocalityLbSetting = LocalityLbSetting()
    default_http_retry_policy: HttpRetry | None = None
    default_inbound_http_retry_policy: HttpRetry | None = None
    default_traffic_policy: DefaultTrafficPolicy | None = None
    path_normalization: PathNormalization = PathNormalization()
    inbound_cluster_stat_name: str = ""
    outbound_cluster_stat_name: str = ""
    service_settings: tuple[SettingsOfHosts, ...] = ()
    extension_providers: tuple[ExtensionProvider, ...] = ()
    """Besides Istio's own providers; one of the same name replaces Istio's."""
    default_providers: DefaultProviders = DefaultProviders()
    default_config: ProxyConfig = ProxyConfig()
    ingress_controller_mode: IngressControllerMode = IngressControllerMode.STRICT
    ingress_class: str = "istio"
    ingress_service: str = "istio-ingressgateway"
    """The Kubernetes Service of the routers for Ingresses."""
    ingress_selector: str = ""
    """The label `istio` of the routers for Ingresses, where it is not that of their Service."""
