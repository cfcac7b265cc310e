"""MeshConfig: what must hold between its fields, which are in `_spec`.

Source: Istio's API, mesh/v1alpha1, and its validation.
"""

import json
import re
from collections.abc import Iterator

from istio_config.kinds.checks import below, duration_mistake, export_to_mistakes, is_wildcard_host
from istio_config.kinds.destination_rule import (
    ConnectionPool,
    TcpSettings,
    connection_pool_mistakes,
    locality_mistakes,
    outlier_detection_mistakes,
)
from istio_config.kinds.formats import OF_LOGS, format_mistake
from istio_config.kinds.gateway import CIPHERS, CURVES
from istio_config.kinds.kind import Kind
from istio_config.kinds.mesh_config._proxy_config import proxy_config_mistakes
from istio_config.kinds.mesh_config._spec import LogEncoding, MeshConfigSpec, MeshTls
from istio_config.kinds.mesh_config.providers import (
    default_provider_mistakes,
    log_label_mistakes,
    provider_mistakes,
    provider_warnings,
)
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.virtual_service import retry_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding
from mesh_identity import InvalidSpiffeId, checked_trust_domain

STAT_NAME_PARTS = (
    "%SERVICE%",
    "%SERVICE_FQDN%",
    "%SERVICE_NAME%",
    "%SERVICE_PORT%",
    "%SERVICE_PORT_NAME%",
    "%TARGET_PORT%",
    "%SUBSET_NAME%",
)
"""The placeholders in `inboundClusterStatName` and `outboundClusterStatName`."""


def _mistakes(spec: MeshConfigSpec, metadata: Metadata) -> Iterator[Finding]:
    del metadata
    yield from _trust_domain_mistakes(spec)
    yield from _duration_mistakes(spec)
    yield from _port_mistakes(spec)
    yield from export_to_mistakes(spec.default_service_export_to, "", ("defaultServiceExportTo",))
    yield from export_to_mistakes(
        spec.default_virtual_service_export_to, "", ("defaultVirtualServiceExportTo",)
    )
    yield from export_to_mistakes(
        spec.default_destination_rule_export_to, "", ("defaultDestinationRuleExportTo",)
    )
    yield from below(("localityLbSetting",), locality_mistakes(spec.locality_lb_setting))
    yield from _tls_mistakes(("meshMTLS",), spec.mesh_mtls)
    if spec.mesh_mtls.ecdh_curves:
        yield ("meshMTLS", "ecdhCurves"), "can be set in tlsDefaults only"
    yield from _tls_mistakes(("tlsDefaults",), spec.tls_defaults)
    yield from _default_mistakes(spec)
    yield from _stat_name_mistakes(("inboundClusterStatName",), spec.inbound_cluster_stat_name)
    yield from _stat_name_mistakes(("outboundClusterStatName",), spec.outbound_cluster_stat_name)
    for index, settings in enumerate(spec.service_settings):
        for at, host in enumerate(settings.hosts):
            if not is_wildcard_host(host):
                yield (
                    ("serviceSettings", index, "hosts", at),
                    f'"{host}" is not a host name, nor a pattern such as *.example.com',
                )
    yield from _access_log_mistakes(spec)
    providers = spec.extension_providers
    yield from below(("extensionProviders",), provider_mistakes(providers))
    yield from below(
        ("defaultProviders",), default_provider_mistakes(spec.default_providers, providers)
    )
    yield from below(("defaultConfig",), proxy_config_mistakes(spec.default_config))


def _warnings(spec: MeshConfigSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from below(("extensionProviders",), provider_warnings(spec.extension_providers))


def _trust_domain_mistakes(spec: MeshConfigSpec) -> Iterator[Finding]:
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


def _duration_mistakes(spec: MeshConfigSpec) -> Iterator[Finding]:
    if wrong := duration_mistake(spec.connect_timeout):
        yield ("connectTimeout",), wrong
    if wrong := duration_mistake(spec.dns_refresh_rate):
        yield ("dnsRefreshRate",), wrong
    timeout = spec.protocol_detection_timeout
    if timeout and (wrong := duration_mistake(timeout)):
        yield ("protocolDetectionTimeout",), wrong
    if spec.tcp_keepalive is not None:
        pool = ConnectionPool(tcp=TcpSettings(tcp_keepalive=spec.tcp_keepalive))
        for path, message in connection_pool_mistakes(pool):
            yield path[1:], message  # the path of a pool begins with "tcp"


def _port_mistakes(spec: MeshConfigSpec) -> Iterator[Finding]:
    given = {
        "proxyListenPort": spec.proxy_listen_port,
        "proxyInboundListenPort": spec.proxy_inbound_listen_port,
        "proxyHttpPort": spec.proxy_http_port,
    }
    seen: dict[int, str] = {}
    for name, port in given.items():
        if port is not None and port > 0 and (other := seen.setdefault(port, name)) != name:
            yield (name,), f"{port} is {other}, too: proxies listen on both; change one of the two"


def _tls_mistakes(path: FieldPath, tls: MeshTls) -> Iterator[Finding]:
    for index, cipher in enumerate(tls.cipher_suites):
        if cipher not in CIPHERS:
            yield (
                (*path, "cipherSuites", index),
                f'unknown cipher "{cipher}"; known: {", ".join(sorted(CIPHERS))}',
            )
    for index, curve in enumerate(tls.ecdh_curves):
        if curve not in CURVES:
            yield (
                (*path, "ecdhCurves", index),
                f'unknown curve "{curve}"; known: {", ".join(CURVES)}',
            )


def _default_mistakes(spec: MeshConfigSpec) -> Iterator[Finding]:
    if spec.default_http_retry_policy is not None:
        yield from retry_mistakes(spec.default_http_retry_policy, ("defaultHttpRetryPolicy",))
    if spec.default_inbound_http_retry_policy is not None:
        path: FieldPath = ("defaultInboundHttpRetryPolicy",)
        yield from retry_mistakes(spec.default_inbound_http_retry_policy, path)
    policy = spec.default_traffic_policy
    if policy is None:
        return
    path = ("defaultTrafficPolicy",)
    if policy.connection_pool is not None:
        yield from below(
            (*path, "connectionPool"), connection_pool_mistakes(policy.connection_pool)
        )
    if policy.outlier_detection is not None:
        yield from below(
            (*path, "outlierDetection"), outlier_detection_mistakes(policy.outlier_detection)
        )


def _stat_name_mistakes(path: FieldPath, pattern: str) -> Iterator[Finding]:
    for each in re.findall(r"%[A-Z_]*%", pattern):
        if each not in STAT_NAME_PARTS:
            yield path, f"unknown part {each}; known: {', '.join(STAT_NAME_PARTS)}"


def _access_log_mistakes(spec: MeshConfigSpec) -> Iterator[Finding]:
    path: FieldPath = ("accessLogFormat",)
    if spec.access_log_encoding is not LogEncoding.JSON:
        if (wrong := format_mistake(spec.access_log_format, OF_LOGS)) is not None:
            yield path, wrong
        return
    if not spec.access_log_format:
        return
    try:
        fields = json.loads(spec.access_log_format)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        yield path, "with accessLogEncoding JSON it must be a JSON object"
        return
    yield from log_label_mistakes(fields, path)


MESH_CONFIG = Kind(
    name="MeshConfig",
    group="mesh.istio.io",
    versions=("v1alpha1",),
    spec=MeshConfigSpec,
    validate=_mistakes,
    warn=_warnings,
    is_single=True,
)
