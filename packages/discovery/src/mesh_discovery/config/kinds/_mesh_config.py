"""MeshConfig: the settings of a whole mesh, with Istio's defaults.

Source: Istio's API, mesh/v1alpha1.
"""

import json
import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from mesh_configfile import Duration, DurationBoundsError, DurationError, FieldPath
from mesh_configfile.shapes import Finding
from mesh_discovery._addresses import split_host_port
from mesh_discovery.config.kinds._fields import PortNumber, SpecFields, Text, Unchecked
from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds._metadata import Metadata
from mesh_identity import InvalidSpiffeId, checked_trust_domain


class TrafficPolicyMode(StrEnum):
    """How requests for hosts that the mesh does not know are treated."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"


class OutboundTrafficPolicy(SpecFields, frozen=True):
    """MeshConfig's outboundTrafficPolicy."""

    mode: TrafficPolicyMode = TrafficPolicyMode.ALLOW_ANY


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
    outbound_traffic_policy: OutboundTrafficPolicy = OutboundTrafficPolicy()
    enable_auto_mtls: bool = True
    proxy_http_port: PortNumber | None = None
    access_log_file: str = ""
    access_log_format: str = ""
    access_log_encoding: LogEncoding = LogEncoding.TEXT
    dns_refresh_rate: Duration = Duration(5)
    default_service_export_to: tuple[Text, ...] = ("*",)
    default_config: dict[str, Unchecked] = msgspec.field(default_factory=dict)
    """Settings of the agents; the control plane reads discoveryAddress and drainDuration."""


DRAIN_TIME = Duration(45)
"""The drain time of agents without another; Istio's default."""


def mesh_drain_time(default_config: Mapping[str, object]) -> Duration:
    """Return the drain time in a mesh config's `defaultConfig`; raises `DurationError`."""
    value = default_config.get("drainDuration")
    return DRAIN_TIME if value is None else drain_time(value if isinstance(value, str) else "")


def drain_time(text: str) -> Duration:
    """Read a `drainDuration`, rounded up to whole seconds, as Envoy has it.

    Raises `DurationError`.
    """
    return Duration(math.ceil(Duration.parse(text)))


def _validate(spec: MeshConfigSpec, _metadata: Metadata) -> Iterator[Finding]:
    domains: list[tuple[FieldPath, str]] = [
        (("trustDomain",), spec.trust_domain or "cluster.local"),
        *(
            (("trustDomainAliases", index), alias)
            for index, alias in enumerate(spec.trust_domain_aliases)
        ),
    ]
    for path, domain in domains:
        try:
            checked_trust_domain(domain)
        except InvalidSpiffeId as error:
            yield path, str(error)
    if spec.connect_timeout < 0.001:
        yield ("connectTimeout",), "must be at least 1ms"
    if spec.dns_refresh_rate < 0.001:
        yield ("dnsRefreshRate",), "must be at least 1ms"
    if spec.access_log_format and spec.access_log_encoding is LogEncoding.JSON:
        try:
            is_object = isinstance(json.loads(spec.access_log_format), dict)
        except ValueError:
            is_object = False
        if not is_object:
            yield ("accessLogFormat",), "with accessLogEncoding JSON it must be a JSON object"
    address = spec.default_config.get("discoveryAddress", "localhost:15012")
    try:
        split_host_port(address if isinstance(address, str) else "")
    except ValueError:
        yield ("defaultConfig", "discoveryAddress"), "expected host:port"
    try:
        mesh_drain_time(spec.default_config)
    except DurationBoundsError as error:
        yield ("defaultConfig", "drainDuration"), str(error)
    except DurationError as error:
        yield ("defaultConfig", "drainDuration"), f"expected a duration such as 45s{error.hint}"


MESH_CONFIG = Kind(
    name="MeshConfig",
    group="mesh.istio.io",
    versions=("v1alpha1",),
    spec=MeshConfigSpec,
    validate=_validate,
    unsupported=((("outboundTrafficPolicy", "mode"), "ALLOW_ANY_DYNAMIC_DNS"),),
)
