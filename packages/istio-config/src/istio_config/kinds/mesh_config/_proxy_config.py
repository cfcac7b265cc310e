"""The part of Istio's ProxyConfig that decides what a proxy is sent.

MeshConfig's `defaultConfig` has it for the whole mesh, and the node metadata PROXY_CONFIG for one
proxy. Source: Istio's API, mesh/v1alpha1.
"""

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.addresses import split_host_port
from istio_config.kinds.checks import duration_mistake
from istio_config.kinds.fields import SpecFields, Unchecked
from istio_config.kinds.formats import header_value_mistake
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding


class InterceptionMode(StrEnum):
    """How the connections of a workload come to its proxy; a node that says nothing means NONE.

    NONE: the proxy listens on the addresses that clients connect to. REDIRECT, TPROXY: rules of the
    kernel redirect connections to two ports of the proxy, which sees their original destination.
    """

    NONE = "NONE"
    REDIRECT = "REDIRECT"
    TPROXY = "TPROXY"


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
DRAIN_TIME = Duration(45)
"""The drain time of agents that set none: Istio's default."""


class ClientCertDetails(StrEnum):
    """The treatment of the header x-forwarded-client-cert."""

    UNDEFINED = "UNDEFINED"
    SANITIZE = "SANITIZE"
    FORWARD_ONLY = "FORWARD_ONLY"
    APPEND_FORWARD = "APPEND_FORWARD"
    SANITIZE_SET = "SANITIZE_SET"
    ALWAYS_FORWARD_ONLY = "ALWAYS_FORWARD_ONLY"


class ClientCertFields(SpecFields, frozen=True):
    """The parts of a client's certificate that x-forwarded-client-cert has (Istio's choice)."""

    subject: bool | None = None
    cert: bool | None = None
    chain: bool | None = None
    dns: bool | None = None
    uri: bool | None = None


class Switch(SpecFields, frozen=True):
    """A header that is there unless it is switched off."""

    disabled: bool | None = None


class ServerHeader(SpecFields, frozen=True):
    """The header `server` of responses."""

    disabled: bool | None = None
    value: str = ""


class ForwardedHeader(SpecFields, frozen=True):
    """A header that is there only if it is switched on."""

    enabled: bool | None = None


class MetadataExchangeMode(StrEnum):
    """Which peers get metadata of a proxy; only Istio's own Envoy has the filter that sends it."""

    UNDEFINED = "UNDEFINED"
    IN_MESH = "IN_MESH"


class MetadataExchangeHeaders(SpecFields, frozen=True):
    """The headers with metadata of a proxy (x-envoy-peer-metadata) from Istio's own Envoy."""

    mode: MetadataExchangeMode = MetadataExchangeMode.UNDEFINED


class ProxyHeaders(SpecFields, frozen=True):
    """The headers that proxies set by themselves."""

    forwarded_client_cert: ClientCertDetails = ClientCertDetails.UNDEFINED
    set_current_client_cert_details: ClientCertFields | None = None
    request_id: Switch | None = None
    server: ServerHeader | None = None
    attempt_count: Switch | None = None
    envoy_debug_headers: Switch | None = None
    metadata_exchange_headers: MetadataExchangeHeaders | None = None
    preserve_http1_header_case: bool | None = None
    x_forwarded_host: ForwardedHeader | None = None
    x_forwarded_port: ForwardedHeader | None = None


class ProxyProtocolListener(SpecFields, frozen=True):
    """Has no fields: if it is there, connections to gateways must begin with the PROXY protocol."""


class GatewayTopology(SpecFields, frozen=True):
    """The proxies between clients and gateways."""

    num_trusted_proxies: _Count = 0
    forward_client_cert_details: ClientCertDetails = ClientCertDetails.UNDEFINED
    proxy_protocol: ProxyProtocolListener | None = None


class ConnectionProfile(StrEnum):
    """Defaults of settings of connections."""

    UNSPECIFIED = "UNSPECIFIED"
    DEFAULT = "DEFAULT"
    EDGE = "EDGE"


class UnderscoresAction(StrEnum):
    """How headers with underscores in their names are treated."""

    ALLOW = "ALLOW"
    REJECT_REQUEST = "REJECT_REQUEST"
    DROP_HEADER = "DROP_HEADER"


class EscapedSlashesAction(StrEnum):
    """How %2F and %5C in paths are treated."""

    KEEP_UNCHANGED = "KEEP_UNCHANGED"
    REJECT_REQUEST = "REJECT_REQUEST"
    UNESCAPE_AND_REDIRECT = "UNESCAPE_AND_REDIRECT"
    UNESCAPE_AND_FORWARD = "UNESCAPE_AND_FORWARD"


class ConnectionSettings(SpecFields, frozen=True):
    """How long connections and requests of clients may take, and how large they may be."""

    profile: ConnectionProfile = ConnectionProfile.UNSPECIFIED
    """EDGE sets defaults for the fields below, at gateways."""
    http_idle_timeout: Duration | None = None
    http_max_connection_duration: Duration | None = None
    http_max_stream_duration: Duration | None = None
    http_stream_idle_timeout: Duration | None = None
    http_request_timeout: Duration | None = None
    http_request_headers_timeout: Duration | None = None
    http_drain_timeout: Duration | None = None
    http_max_concurrent_streams: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    http2_initial_stream_window_size: (
        Annotated[int, msgspec.Meta(ge=65535, le=2**31 - 1)] | None
    ) = None
    http2_initial_connection_window_size: (
        Annotated[int, msgspec.Meta(ge=65535, le=2**31 - 1)] | None
    ) = None
    http_headers_with_underscores_action: UnderscoresAction | None = None
    http_merge_slashes: bool | None = None
    http_path_with_escaped_slashes_action: EscapedSlashesAction | None = None
    listener_per_connection_buffer_limit_bytes: _Count | None = None


class TagLiteral(SpecFields, frozen=True):
    """A tag with a value of its own."""

    value: str = ""


class TagSource(SpecFields, frozen=True):
    """A tag with the value of a variable, or of a header."""

    name: str = ""
    default_value: str = ""


class TracingTag(SpecFields, frozen=True):
    """A further tag of spans."""

    literal: TagLiteral | None = None
    environment: TagSource | None = None
    header: TagSource | None = None


class ProxyTracing(SpecFields, frozen=True):
    """The tracer in a proxy's bootstrap, which acts where no provider is named, and its tags."""

    zipkin: Unchecked = None
    """Agents read it, as they do all tracers here."""
    datadog: Unchecked = None
    open_telemetry: Unchecked = None
    lightstep: Unchecked = None
    stackdriver: Unchecked = None
    open_census_agent: Unchecked = None
    tls_settings: Unchecked = None
    custom_tags: dict[str, TracingTag] = msgspec.field(default_factory=dict)
    max_path_tag_length: _Count = 0
    sampling: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    """The percentage of requests that are traced; None: 1, Istio's default."""
    enable_istio_tags: bool | None = None

    def __hash__(self) -> int:
        return hash((self.sampling, self.max_path_tag_length, tuple(self.custom_tags)))


class ProxyConfig(SpecFields, frozen=True):
    """The settings of agents that the control plane reads, too."""

    discovery_address: str | None = None
    drain_duration: Duration = DRAIN_TIME
    given_interception_mode: InterceptionMode | None = msgspec.field(
        default=None, name="interceptionMode"
    )
    proxy_headers: ProxyHeaders | None = None
    gateway_topology: GatewayTopology | None = None
    connection_settings: ConnectionSettings | None = None
    tracing: ProxyTracing | None = None
    zipkin_address: str = ""
    """The older way to name a tracer for the bootstrap."""

    @property
    def interception_mode(self) -> InterceptionMode:
        """In `defaultConfig`: the mode of proxies whose node metadata has none.

        Also that for which `reachability` looks for what can't be reached.
        """
        return self.given_interception_mode or InterceptionMode.NONE

    def over(self, mesh: "ProxyConfig") -> "ProxyConfig":
        """Return the settings of one proxy: what it leaves out is the mesh's.

        Equal settings lead to equal resources: addresses, drain times and the bootstrap's tracer
        are left out.
        """
        return ProxyConfig(
            proxy_headers=self.proxy_headers or mesh.proxy_headers,
            gateway_topology=self.gateway_topology or mesh.gateway_topology,
            connection_settings=self.connection_settings or mesh.connection_settings,
        )


def drain_time(text: str) -> Duration:
    """Read a `drainDuration`, rounded up to whole seconds (`whole_seconds`).

    Raises `DurationError`.
    """
    return whole_seconds(Duration.parse(text))


def whole_seconds(duration: Duration) -> Duration:
    """Round a drain time up, as Envoy's --drain-time-s takes whole seconds."""
    return Duration(math.ceil(duration))


def proxy_config_mistakes(config: ProxyConfig) -> Iterator[Finding]:
    """Yield what is wrong with a proxy config; paths start below it."""
    if config.discovery_address is not None:
        try:
            split_host_port(config.discovery_address)
        except ValueError:
            yield ("discoveryAddress",), "expected host:port"
    headers = config.proxy_headers
    if headers is not None and headers.server is not None:
        value = headers.server.value
        if value and (wrong := header_value_mistake(value)) is not None:
            yield ("proxyHeaders", "server", "value"), wrong
    settings = config.connection_settings
    for name in _DURATIONS:
        value_s = getattr(settings, name) if settings is not None else None
        if isinstance(value_s, Duration) and value_s and (wrong := duration_mistake(value_s)):
            yield ("connectionSettings", _SPELLED[name]), wrong


_SPELLED = dict(
    zip(
        ConnectionSettings.__struct_fields__,
        ConnectionSettings.__struct_encode_fields__,
        strict=True,
    )
)
_DURATIONS = tuple(each for each in _SPELLED if each.endswith(("_timeout", "_duration")))
