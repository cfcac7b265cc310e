"""Each field of MeshConfig that shapes traffic shows in what proxies are sent."""

from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Any, NamedTuple

import pytest
import yaml as pyyaml

from envoy_config import Proxy, PushContext
from istio_config.kinds.mesh_config import (
    ConnectionSettings,
    GatewayTopology,
    MeshConfigSpec,
    ProxyHeaders,
)
from mesh_model import MeshModel
from models import Models
from proxies import as_json, proxy, proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]

MESH = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec:
  hosts: [web.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 90, name: auto, protocol: ""}
  endpoints:
  - {address: 127.93.1.1, serviceAccount: web, locality: r1/z1}
  - {address: 127.93.1.9, serviceAccount: web, locality: r2/z1}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: other}
spec:
  hosts: [far.other.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 81, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.9}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: named, namespace: default}
spec:
  hosts: [api.example.com]
  resolution: DNS
  ports: [{number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: named, namespace: other}
spec: {host: api.example.com, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: named, namespace: default}
spec: {host: api.example.com, trafficPolicy: {tls: {mode: SIMPLE}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: far, namespace: other}
spec:
  host: far.other.svc.cluster.local
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 42}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: far, namespace: other}
spec:
  hosts: [far.other.svc.cluster.local]
  http: [{route: [{destination: {host: far.other.svc.cluster.local}}], rewrite: {authority: x}}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  selector: {istio: gw}
  servers: [{port: {number: 8081, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
"""


def proxies() -> list[Proxy]:
    """Return a sidecar to which nothing is redirected, a redirected one, and a router."""

    def redirected(kind: str, labels: dict[str, Any]) -> Proxy:
        return proxy_of(
            Node(
                id=f"{kind}~127.93.1.1~w.default~default.svc.cluster.local",
                metadata={"INTERCEPTION_MODE": "REDIRECT", "LABELS": labels},
                region="r1",
                zone="z1",
            )
        )

    return [proxy(), redirected("sidecar", {}), redirected("router", {"istio": "gw"})]


def sent(model: MeshModel) -> list[Any]:
    """Return all that these proxies are sent."""
    context, found = PushContext(model), []
    for each in proxies():
        clusters, listeners = as_json(context.clusters(each)), as_json(context.listeners(each))
        names = frozenset(values(listeners, "route_config_name"))
        found += [
            *clusters,
            *listeners,
            *as_json(context.routes(each, names)),
            *as_json(context.endpoints(each, frozenset(each["name"] for each in clusters))),
        ]
    return found


def values(item: Any, name: str) -> Iterator[Any]:
    """Yield the values of all fields of a name, whatever they are in."""
    if isinstance(item, list):
        for each in item:
            yield from values(each, name)
    elif isinstance(item, dict):
        for key, value in item.items():
            if key == name:
                yield value
            yield from values(value, name)


HEADERS = "defaultConfig: {proxyHeaders: {%s}}"
CONNECTIONS = "defaultConfig: {connectionSettings: {%s}}"


class Gone(NamedTuple):
    """A value that is there without the field, and less often or not with it."""

    value: Any


EFFECTS: dict[str, tuple[str, Any]] = {
    "connectTimeout: 3s": ("connect_timeout", "3s"),
    "protocolDetectionTimeout: 100ms": ("listener_filters_timeout", "0.100s"),
    "dnsRefreshRate: 20s": ("dns_refresh_rate", "20s"),
    "tcpKeepalive: {probes: 3}": ("keepalive_probes", 3),
    "h2UpgradePolicy: UPGRADE": (
        "explicit_http_config",
        {"http2_protocol_options": {"max_concurrent_streams": 1073741824}},
    ),
    "outboundTrafficPolicy: {mode: REGISTRY_ONLY}": ("name", "block_all"),
    "outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}": ("name", "AllowAnyDynamicDNSCluster"),
    "inboundTrafficPolicy: {mode: LOCALHOST}": (
        "socket_address",
        {"address": "127.0.0.1", "port_value": 8080},
    ),
    "enableAutoMtls: false": ("name", Gone("tlsMode-istio")),
    "trustDomain: a.b": ("prefix", "spiffe://a.b/"),
    "trustDomainAliases: [c.d]": ("prefix", "spiffe://c.d/"),
    "meshMTLS: {minProtocolVersion: TLSV1_3}": ("tls_minimum_protocol_version", "TLSv1_3"),
    "meshMTLS: {cipherSuites: [AES128-GCM-SHA256]}": ("cipher_suites", ["AES128-GCM-SHA256"]),
    "tlsDefaults: {ecdhCurves: [P-521]}": ("ecdh_curves", ["P-521"]),
    "tlsDefaults: {cipherSuites: [AES256-GCM-SHA384]}": ("cipher_suites", ["AES256-GCM-SHA384"]),
    "proxyListenPort: 16001": ("port_value", 16001),
    "proxyListenPort: 0": ("name", Gone("virtualOutbound")),
    "proxyInboundListenPort: 16006": ("port_value", 16006),
    "proxyHttpPort: 3128": ("port_value", 3128),
    "accessLogFile: /var/log/envoy": ("path", "/var/log/envoy"),
    "{accessLogFile: /dev/stderr, accessLogFormat: line}": ("inline_string", "line\n"),
    "enableEnvoyAccessLogService: true": ("cluster_name", "envoy_accesslog_service"),
    "defaultProviders: {accessLogging: [envoy]}": ("name", "envoy.access_loggers.stdout"),
    "defaultConfig: {tracing: {sampling: 7}}": ("random_sampling", {"value": 7.0}),
    "defaultConfig: {zipkinAddress: 'zipkin:9411'}": ("random_sampling", {"value": 1.0}),
    "{accessLogFile: /dev/stderr, accessLogEncoding: JSON}": ("json_format", ...),
    "defaultServiceExportTo: [.]": ("name", Gone("outbound|81||far.other.svc.cluster.local")),
    "defaultVirtualServiceExportTo: [.]": ("host_rewrite_literal", Gone("x")),
    "defaultDestinationRuleExportTo: [.]": ("max_connections", Gone(42)),
    "localityLbSetting: {distribute: [{from: r1/*, to: {r2/*: 100}}]}": (
        "load_balancing_weight",
        100,
    ),
    "defaultHttpRetryPolicy: {attempts: 7}": ("num_retries", 7),
    "defaultInboundHttpRetryPolicy: {attempts: 9}": ("num_retries", 9),
    "defaultTrafficPolicy: {connectionPool: {tcp: {maxConnections: 43}}}": ("max_connections", 43),
    "defaultTrafficPolicy: {outlierDetection: {consecutive5xxErrors: 44}}": (
        "consecutive_5xx",
        44,
    ),
    "pathNormalization: {normalization: NONE}": ("normalize_path", False),
    "pathNormalization: {normalization: MERGE_SLASHES}": ("merge_slashes", True),
    "pathNormalization: {normalization: DECODE_AND_MERGE_SLASHES}": (
        "path_with_escaped_slashes_action",
        "UNESCAPE_AND_FORWARD",
    ),
    "inboundClusterStatName: in_%SERVICE%": ("alt_stat_name", "in_web.default;"),
    "outboundClusterStatName: out_%SERVICE_PORT%": ("alt_stat_name", "out_443;"),
    HEADERS % "forwardedClientCert: ALWAYS_FORWARD_ONLY": (
        "forward_client_cert_details",
        "ALWAYS_FORWARD_ONLY",
    ),
    HEADERS % "setCurrentClientCertDetails: {chain: true, dns: false}": (
        "set_current_client_cert_details",
        {"subject": True, "chain": True, "uri": True},
    ),
    HEADERS % "requestId: {disabled: true}": ("generate_request_id", False),
    HEADERS % "server: {value: shop}": ("server_name", "shop"),
    HEADERS % "server: {disabled: true}": ("server_name", Gone("istio-envoy")),
    HEADERS % "attemptCount: {disabled: true}": ("include_request_attempt_count", Gone(True)),
    HEADERS % "envoyDebugHeaders: {disabled: true}": ("suppress_envoy_headers", True),
    HEADERS % "preserveHttp1HeaderCase: true": ("stateful_formatter", ...),
    HEADERS % "xForwardedHost: {enabled: true}": ("append_x_forwarded_host", True),
    HEADERS % "xForwardedPort: {enabled: true}": ("append_x_forwarded_port", True),
    "defaultConfig: {gatewayTopology: {numTrustedProxies: 2}}": ("xff_num_trusted_hops", 2),
    "defaultConfig: {gatewayTopology: {forwardClientCertDetails: FORWARD_ONLY}}": (
        "forward_client_cert_details",
        "FORWARD_ONLY",
    ),
    "defaultConfig: {gatewayTopology: {proxyProtocol: {}}}": (
        "name",
        "envoy.filters.listener.proxy_protocol",
    ),
    CONNECTIONS % "profile: EDGE": ("per_connection_buffer_limit_bytes", 32768),
    CONNECTIONS % "httpIdleTimeout: 11s": ("idle_timeout", "11s"),
    CONNECTIONS % "httpMaxConnectionDuration: 12s": ("max_connection_duration", "12s"),
    CONNECTIONS % "httpMaxStreamDuration: 13s": ("max_stream_duration", "13s"),
    CONNECTIONS % "httpStreamIdleTimeout: 14s": ("stream_idle_timeout", "14s"),
    CONNECTIONS % "httpRequestTimeout: 15s": ("request_timeout", "15s"),
    CONNECTIONS % "httpRequestHeadersTimeout: 16s": ("request_headers_timeout", "16s"),
    CONNECTIONS % "httpDrainTimeout: 17s": ("drain_timeout", "17s"),
    CONNECTIONS % "httpMaxConcurrentStreams: 18": ("max_concurrent_streams", 18),
    CONNECTIONS % "http2InitialStreamWindowSize: 65536": ("initial_stream_window_size", 65536),
    CONNECTIONS % "http2InitialConnectionWindowSize: 65537": (
        "initial_connection_window_size",
        65537,
    ),
    CONNECTIONS % "httpHeadersWithUnderscoresAction: DROP_HEADER": (
        "headers_with_underscores_action",
        "DROP_HEADER",
    ),
    CONNECTIONS % "httpMergeSlashes: true": ("merge_slashes", True),
    CONNECTIONS % "httpPathWithEscapedSlashesAction: REJECT_REQUEST": (
        "path_with_escaped_slashes_action",
        "REJECT_REQUEST",
    ),
    CONNECTIONS % "listenerPerConnectionBufferLimitBytes: 1000": (
        "per_connection_buffer_limit_bytes",
        1000,
    ),
}
"""By a mesh config: a field of Envoy's, and the value that it has then and not before."""

SHOWN_ELSEWHERE = {
    "rootNamespace": "mesh-model/tests/sidecars/test_choosing_sidecars.py",
    "serviceSettings": "istio-config/tests/mesh_config/test_mesh_config_fields.py",
    "discoveryAddress": "discovery/tests/serve",
    "drainDuration": "discovery/tests/serve/test_admission.py",
    "extensionProviders": "mesh-model/tests/sidecars/test_sidecar_imports.py",
    "enableTracing": "envoy-config/tests/generate/test_telemetry_of_listeners.py",
    "disableEnvoyListenerLog": "envoy-config/tests/generate/test_telemetry_of_listeners.py",
    "ingressClass": "mesh-model/tests/ingress",
    "ingressControllerMode": "discovery/tests/scenarios/gateway/test_ingress.py",
    "ingressSelector": "mesh-model/tests/ingress",
    "ingressService": "mesh-model/tests/ingress",
    "metadataExchangeHeaders": "Envoys as they are send none",
}


def mesh_of(build: Build, config: str) -> list[Any]:
    text = pyyaml.safe_dump({"spec": pyyaml.safe_load(config) or {}}, sort_keys=False)
    return sent(build(MESH + text))


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return mesh_of(Models(tmp_path_factory.mktemp("mesh")), "")


@pytest.mark.parametrize("config", EFFECTS)
def test_a_field_shows_in_what_proxies_are_sent(
    config: str, model_of: Build, usual: list[Any]
) -> None:
    field, wanted = EFFECTS[config]
    before, after = list(values(usual, field)), list(values(mesh_of(model_of, config), field))

    match wanted:
        case Gone(value=value):
            assert value in before
            assert before.count(value) > after.count(value)
        case EllipsisType():
            assert after
            assert not before
        case _:
            assert wanted in after
            assert wanted not in before


def test_every_field_is_shown() -> None:
    shown = " ".join([*EFFECTS, *SHOWN_ELSEWHERE])
    fields = (MeshConfigSpec, ProxyHeaders, GatewayTopology, ConnectionSettings)

    assert [
        name for each in fields for name in each.__struct_encode_fields__ if name not in shown
    ] == []
