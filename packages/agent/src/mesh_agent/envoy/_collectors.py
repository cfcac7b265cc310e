"""Where Envoy sends its traces, statistics, access logs and load reports.

Source: the fields tracing, envoyMetricsService, envoyAccessLogService and statsdUdpAddress of
istio.mesh.v1alpha1.ProxyConfig.
"""

import json
import logging
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

import msgspec

import envoy_supervisor
from envoy_supervisor import JSON, BootstrapError, ClientTls, MeshTls, Target, Tracing
from istio_settings import (
    Fields,
    LayerField,
    ProxyConfig,
    Settings,
    is_address,
)
from mesh_agent.envoy._collector_tls import client_tls

log = logging.getLogger(__name__)

_TRACERS = ("zipkin", "datadog", "openTelemetry")
_FORMER_TRACERS = ("lightstep", "stackdriver", "openCensusAgent")
_LOADS = "LOAD_STATS_CONFIG_JSON"
_NOWHERE = Target(host="localhost", port=1)


class Collectors(msgspec.Struct, frozen=True, kw_only=True):
    """The configured collectors; tls_files: the certificate and key files that they use."""

    tracing: Tracing | None = None
    statsd: envoy_supervisor.Statsd | None = None
    metrics_service: envoy_supervisor.MetricsService | None = None
    access_log_service: envoy_supervisor.AccessLogService | None = None
    load_reporting: envoy_supervisor.LoadReportingService | None = None

    @property
    def tls_files(self) -> tuple[Path, ...]:
        services = (self.tracing, self.metrics_service, self.access_log_service)
        settings = [service.tls for service in services if service is not None]
        return tuple(
            path
            for tls in settings
            if isinstance(tls, ClientTls)
            for path in (tls.roots, tls.certificate, tls.private_key)
            if path is not None
        )


def collectors(
    settings: Settings, proxy: ProxyConfig, *, service_name: str, metadata: Mapping[str, JSON]
) -> Collectors:
    """Return the configured collectors; mistakes go to the settings' problems.

    service_name: the service in the spans. metadata: of the node.
    """
    reader = _Reader(settings, proxy)
    metrics = reader.service("envoyMetricsService", "envoyMetricsServiceAddress")
    logs = reader.service("envoyAccessLogService")
    return Collectors(
        tracing=reader.tracing(service_name),
        statsd=reader.statsd(),
        metrics_service=envoy_supervisor.MetricsService(target=metrics[0], tls=metrics[1])
        if metrics
        else None,
        access_log_service=envoy_supervisor.AccessLogService(target=logs[0], tls=logs[1])
        if logs
        else None,
        load_reporting=_load_reporting(metadata, settings.problems),
    )


def without_own_tracer(merged: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the proxy configuration without our own fields, which istiod would refuse."""
    tracing = merged.get("tracing")
    if not isinstance(tracing, Mapping) or "openTelemetry" not in tracing:
        return merged
    return {**merged, "tracing": {k: v for k, v in tracing.items() if k != "openTelemetry"}}


class _Reader:
    """Reads the proxy configuration's collectors."""

    def __init__(self, settings: Settings, proxy: ProxyConfig) -> None:
        self._settings = settings
        self._proxy = proxy

    def tracing(self, service_name: str) -> Tracing | None:
        fields = Fields.top_level(self._proxy, "tracing", self._settings.problems)
        if fields is None:
            return self._older_zipkin()
        fields.expect_only(
            *_TRACERS,
            *_FORMER_TRACERS,
            *("customTags", "enableIstioTags", "maxPathTagLength", "sampling", "tlsSettings"),
        )
        fields.number_between("sampling", 0, 100)
        kinds = fields.given((*_TRACERS, *_FORMER_TRACERS))
        if len(kinds) > 1:
            fields.complain(kinds[1], f"can't be given beside {kinds[0]}: Envoy has one tracer")
        tracer = fields.part(kinds[0]) if len(kinds) == 1 else None
        if tracer is None:
            return self._older_zipkin() if not kinds else None
        target: Target | None = _NOWHERE
        if kinds[0] in _TRACERS:
            tracer.expect_only("address")
            target = self._target(tracer)
        tls = client_tls(fields, target, self._settings)
        if target is None:
            return None
        try:
            return envoy_supervisor.tracing_by_name(
                kinds[0], target=target, service_name=service_name, tls=tls
            )
        except BootstrapError as error:
            self._settings.problems.append(f"{fields.place}: {error}")
            return None

    def _older_zipkin(self) -> Tracing | None:
        target = self._top_level_target("zipkinAddress")
        return envoy_supervisor.Zipkin(target=target) if target else None

    def service(
        self, key: str, older: str = ""
    ) -> tuple[Target, ClientTls | MeshTls | None] | None:
        """Return a gRPC service that Envoy sends to, by its field or the older address field."""
        fields = Fields.top_level(self._proxy, key, self._settings.problems)
        if fields is None:
            target = self._top_level_target(older) if older else None
            return (target, None) if target else None
        fields.expect_only("address", "tlsSettings", "tcpKeepalive")
        target = self._target(fields)
        tls = client_tls(fields, target, self._settings)
        return (target, tls) if target else None

    def statsd(self) -> envoy_supervisor.Statsd | None:
        target = self._top_level_target("statsdUdpAddress")
        if target is None:
            return None
        address = _resolved(target.host)
        if address is None:
            log.warning(
                "statistics are not sent: the host of statsdUdpAddress has no address",
                extra={"host": target.host},
            )
            return None
        return envoy_supervisor.Statsd(address=address, port=target.port)

    def _top_level_target(self, key: str) -> Target | None:
        text = self._proxy.merged.get(key)
        if not isinstance(text, str) or not text:
            return None
        return self._parsed(text, self._proxy.place(key))

    def _target(self, fields: Fields) -> Target | None:
        text = fields.required_text("address")
        return self._parsed(text, fields.place.below("address")) if text else None

    def _parsed(self, text: str, where: LayerField) -> Target | None:
        host_ip = self._settings.text("HOST_IP")
        if "$(HOST_IP)" in text:
            if not is_address(host_ip):
                self._settings.problems.append(
                    f"{where} is {text!r}, and HOST_IP is {host_ip!r}, which is not an IP address"
                )
                return None
            text = text.replace("[$(HOST_IP)]", "$(HOST_IP)")
            text = text.replace("$(HOST_IP)", f"[{host_ip}]" if ":" in host_ip else host_ip)
        try:
            return Target.parse(text)
        except BootstrapError as error:
            self._settings.problems.append(f"{where}: {error}")
            return None


def _resolved(host: str) -> str | None:
    """Return an IP address of the host, IPv4 before IPv6; resolved once, as in Istio."""
    if is_address(host):
        return host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    addresses = {str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found}
    return min(addresses, key=lambda text: (ip_address(text).version, text), default=None)


def _load_reporting(
    metadata: Mapping[str, JSON], problems: list[str]
) -> envoy_supervisor.LoadReportingService | None:
    """Return the service in an ApiConfigSource: one named by its address, or the control plane.

    `xds-grpc` is the cluster of the relay's socket, through which load reports pass. Another
    cluster would be one that the bootstrap does not have.
    """
    value = metadata.get(_LOADS)
    if value is None or value == "":
        return None
    where = f"ISTIO_META_{_LOADS}"
    try:
        source = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        problems.append(f"{where} is not JSON: give an ApiConfigSource as a JSON object")
        return None
    service = _only_service(source)
    match service:
        case {"google_grpc": {"target_uri": str(address), **rest}} if not (
            rest.keys() - {"stat_prefix"}
        ):
            pass
        case {"googleGrpc": {"targetUri": str(address), **rest}} if not (
            rest.keys() - {"statPrefix"}
        ):
            pass
        case {"envoy_grpc": {"cluster_name": "xds-grpc"}} | {
            "envoyGrpc": {"clusterName": "xds-grpc"}
        }:
            return envoy_supervisor.LoadReportingService()
        case _:
            problems.append(
                f"{where} can't be carried; it must name one service by its address, as in "
                '{"grpc_services": [{"google_grpc": {"target_uri": "loads.example:443"}}]}, or the '
                'control plane by {"envoy_grpc": {"cluster_name": "xds-grpc"}}; '
                "put others into the file that ISTIO_BOOTSTRAP_OVERRIDE names"
            )
            return None
    try:
        return envoy_supervisor.LoadReportingService(target=Target.parse(address))
    except BootstrapError as error:
        problems.append(f"{where}: {error}")
        return None


def _only_service(source: object) -> object:
    match source:
        case {"grpc_services": [service]} | {"grpcServices": [service]}:
            return service
        case _:
            return None
