"""The services that a proxy reports to: traces, metrics, access logs, loads; a cluster for each.

Envoy takes one tracer from its bootstrap; it applies to every HTTP connection manager that asks
for tracing without naming another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import TypeAlias, assert_never

import msgspec

from envoy_supervisor._errors import BootstrapError
from envoy_supervisor._json import JSON, clean_text
from envoy_supervisor.bootstrap._collectors import Target, Tls, collector_cluster
from mesh_lifecycle import check_fields

_TRACE = "type.googleapis.com/envoy.config.trace.v3"
_METRICS = "type.googleapis.com/envoy.config.metrics.v3"


class Zipkin(msgspec.Struct, frozen=True, kw_only=True):
    """Spans as Zipkin v2 JSON over HTTP."""

    target: Target
    tls: Tls | None = None


class Datadog(msgspec.Struct, frozen=True, kw_only=True):
    """Spans to a Datadog agent."""

    target: Target
    service_name: str
    tls: Tls | None = None


class OpenTelemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Spans as OTLP over gRPC."""

    target: Target
    service_name: str
    tls: Tls | None = None


Tracing: TypeAlias = Zipkin | Datadog | OpenTelemetry

# Tracers that configurations still name and Envoy no longer has; and what takes their spans.
_REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "lightstep": "Lightstep takes OTLP",
        "stackdriver": "Google Cloud takes OTLP",
        "opencensus": "the OpenTelemetry collector takes OpenCensus' place",
        "opencensusagent": "the OpenTelemetry collector takes OpenCensus' place",
    }
)


def tracing_by_name(
    kind: str, *, target: Target, service_name: str, tls: Tls | None = None
) -> Tracing:
    """Return the tracer that a configuration names: zipkin, datadog, openTelemetry, in any case.

    Raises `BootstrapError` for another; for one that Envoy once had, it says what to use instead.
    """
    match kind.lower():
        case "zipkin":
            return Zipkin(target=target, tls=tls)
        case "datadog":
            return Datadog(target=target, service_name=service_name, tls=tls)
        case "opentelemetry":
            return OpenTelemetry(target=target, service_name=service_name, tls=tls)
        case removed if removed in _REMOVED:
            raise BootstrapError(
                f"tracing by {kind!r} is no longer part of Envoy; {_REMOVED[removed]}: use "
                "openTelemetry with its collector's address"
            )
        case _:
            raise BootstrapError(
                f"tracing by {kind!r} is not known; use zipkin, datadog or openTelemetry"
            )


class Statsd(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics over UDP. `address` is an IP address: Envoy does not resolve it."""

    address: str
    port: int

    def __post_init__(self) -> None:
        check_fields(self, error=BootstrapError)


class MetricsService(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics streamed to a gRPC metrics service."""

    target: Target
    tls: Tls | None = None


class AccessLogService(msgspec.Struct, frozen=True, kw_only=True):
    """A gRPC access log service: its cluster `envoy_accesslog_service`, for listeners to use."""

    target: Target
    tls: Tls | None = None


class LoadReportingService(msgspec.Struct, frozen=True, kw_only=True):
    """A gRPC load reporting service (LRS): how much load each cluster's endpoints get from here.

    target: where it is; None: the control plane, on the socket that configuration comes from.
    """

    target: Target | None = None
    tls: Tls | None = None


def load_reporting_config(service: LoadReportingService) -> dict[str, JSON]:
    """Return `cluster_manager.load_stats_config` of the bootstrap."""
    if service.target is None and service.tls is not None:
        raise BootstrapError(
            "load reporting: TLS is set without a target; name one, or leave TLS out"
        )
    cluster = "load_reporting_service" if service.target else "xds-grpc"
    return {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": cluster}}],
    }


def tracing_config(tracing: Tracing) -> dict[str, JSON]:
    """Return `tracing` of the bootstrap."""
    match tracing:
        case Zipkin():
            return _tracer(
                "envoy.tracers.zipkin",
                {
                    "@type": f"{_TRACE}.ZipkinConfig",
                    "collector_cluster": "zipkin",
                    "collector_endpoint": "/api/v2/spans",
                    "collector_endpoint_version": "HTTP_JSON",
                    "trace_id_128bit": True,
                    "shared_span_context": False,
                },
            )
        case Datadog(service_name=service_name):
            return _tracer(
                "envoy.tracers.datadog",
                {
                    "@type": f"{_TRACE}.DatadogConfig",
                    "collector_cluster": "datadog_agent",
                    "service_name": clean_text(service_name),
                },
            )
        case OpenTelemetry(service_name=service_name):
            return _tracer(
                "envoy.tracers.opentelemetry",
                {
                    "@type": f"{_TRACE}.OpenTelemetryConfig",
                    "grpc_service": {"envoy_grpc": {"cluster_name": "opentelemetry_collector"}},
                    "service_name": clean_text(service_name),
                },
            )
        case _:
            assert_never(tracing)


def tracing_cluster(tracing: Tracing) -> dict[str, JSON]:
    """Return the cluster that the tracer sends to."""
    match tracing:
        case Zipkin(target=target, tls=tls):
            return collector_cluster("zipkin", target, tls)
        case Datadog(target=target, tls=tls):
            return collector_cluster("datadog_agent", target, tls)
        case OpenTelemetry(target=target, tls=tls):
            return collector_cluster("opentelemetry_collector", target, tls, http2=True)
        case _:
            assert_never(tracing)


def stats_sinks(statsd: Statsd | None, metrics: MetricsService | None) -> Iterator[JSON]:
    """Yield `stats_sinks` of the bootstrap."""
    if metrics is not None:
        yield {
            "name": "envoy.stat_sinks.metrics_service",
            "typed_config": {
                "@type": f"{_METRICS}.MetricsServiceConfig",
                "transport_api_version": "V3",
                "grpc_service": {"envoy_grpc": {"cluster_name": "envoy_metrics_service"}},
            },
        }
    if statsd is not None:
        try:
            ip_address(statsd.address)
        except ValueError as error:
            raise BootstrapError(
                f"statsd address {statsd.address!r} is not an IP address; resolve the name first"
            ) from error
        socket: JSON = {
            "protocol": "UDP",
            "address": statsd.address,
            "port_value": statsd.port,
        }
        yield {
            "name": "envoy.stat_sinks.statsd",
            "typed_config": {
                "@type": f"{_METRICS}.StatsdSink",
                "address": {"socket_address": socket},
            },
        }


def _tracer(name: str, config: JSON) -> dict[str, JSON]:
    return {"http": {"name": name, "typed_config": config}}
