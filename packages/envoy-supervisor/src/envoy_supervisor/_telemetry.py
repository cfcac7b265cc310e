"""Where a proxy sends what it knows: traces, metrics, access logs; each to a cluster of its own.

Envoy takes one tracer from its bootstrap; it applies to every HTTP connection manager that asks
for tracing without naming another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias, assert_never

from envoy_supervisor._errors import BootstrapError
from envoy_supervisor._json import JSON, clean_text
from envoy_supervisor._static import TYPES, http2_options

_TRACE = "type.googleapis.com/envoy.config.trace.v3"
_METRICS = "type.googleapis.com/envoy.config.metrics.v3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A collector: a DNS name or an IP address, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `host:port`, an IPv6 host in brackets. Raises `BootstrapError`."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise BootstrapError(f"address {text!r}: an IPv6 host stands in brackets: [::1]:9411")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise BootstrapError(f"address {text!r} is not host:port, such as otel.example:4317")
        return cls(host=host, port=int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """TLS towards a collector. Envoy reads the files once, when it starts.

    Name them in `EnvoyConfig.watched_files` to have Envoy replaced when they change.

    roots: whom to trust, PEM. certificate, private_key: what to present; both or neither.
    """

    server_name: str
    roots: Path
    certificate: Path | None = None
    private_key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Zipkin:
    """Spans as Zipkin v2 JSON over HTTP."""

    target: Target
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Datadog:
    """Spans to a Datadog agent."""

    target: Target
    service_name: str
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTelemetry:
    """Spans as OTLP over gRPC."""

    target: Target
    service_name: str
    tls: ClientTls | None = None


Tracing: TypeAlias = Zipkin | Datadog | OpenTelemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Statsd:
    """Statistics over UDP. `address` is an IP address: Envoy does not resolve it."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsService:
    """Statistics streamed to a gRPC metrics service."""

    target: Target
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLogService:
    """A gRPC access log service: its cluster `envoy_accesslog_service`, for listeners to use."""

    target: Target
    tls: ClientTls | None = None


def tracing_config(tracing: Tracing) -> dict[str, JSON]:
    """`tracing` of the bootstrap."""
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
    """The cluster the tracer sends to."""
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
    """`stats_sinks` of the bootstrap."""
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


def collector_cluster(
    name: str, target: Target, tls: ClientTls | None, *, http2: bool = False
) -> dict[str, JSON]:
    """A cluster found by DNS that follows its records' lifetime."""
    address: JSON = {"socket_address": {"address": target.host, "port_value": target.port}}
    cluster: dict[str, JSON] = {
        "name": name,
        "alt_stat_name": f"{name};",
        "cluster_type": {
            "name": "envoy.cluster.dns",
            "typed_config": {
                "@type": f"{TYPES}.clusters.dns.v3.DnsCluster",
                "respect_dns_ttl": True,
                "dns_lookup_family": "ALL",
            },
        },
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }
    if http2:
        cluster["typed_extension_protocol_options"] = http2_options()
    if tls is not None:
        cluster["transport_socket"] = _tls(tls)
    return cluster


def _tls(tls: ClientTls) -> dict[str, JSON]:
    context: dict[str, JSON] = {
        "validation_context": {
            "trusted_ca": {"filename": str(tls.roots)},
            # Without this any name the roots vouch for would do.
            "match_typed_subject_alt_names": [
                {"san_type": "DNS", "matcher": {"exact": tls.server_name}}
            ],
        }
    }
    if tls.certificate is not None and tls.private_key is not None:
        pair: Mapping[str, JSON] = {
            "certificate_chain": {"filename": str(tls.certificate)},
            "private_key": {"filename": str(tls.private_key)},
        }
        context["tls_certificates"] = [pair]
    elif tls.certificate is not None or tls.private_key is not None:
        raise BootstrapError(
            f"TLS to {tls.server_name}: a certificate and a private key belong together"
        )
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": tls.server_name,
            "common_tls_context": context,
        },
    }


def _tracer(name: str, config: JSON) -> dict[str, JSON]:
    return {"http": {"name": name, "typed_config": config}}
