"""MeshConfig's fields: each that shapes traffic is read, checked and named by Istio's name."""

import pytest
import yaml

from istio_config._objects import read_single
from istio_config.kinds.mesh_config._kind import MESH_CONFIG
from istio_config.kinds.mesh_config._spec import MeshConfigSpec, PathNormalizationType
from istio_config.kinds.metadata import Metadata
from mesh_configfile import field_name, read_document

EVERY_FIELD = """
trustDomain: a.b
trustDomainAliases: [c.d]
rootNamespace: root
connectTimeout: 3s
protocolDetectionTimeout: 100ms
dnsRefreshRate: 20s
tcpKeepalive: {probes: 3, time: 60s, interval: 10s}
h2UpgradePolicy: UPGRADE
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
inboundTrafficPolicy: {mode: LOCALHOST}
enableAutoMtls: false
meshMTLS: {minProtocolVersion: TLSV1_3, cipherSuites: [AES128-GCM-SHA256]}
tlsDefaults: {minProtocolVersion: TLSV1_2, ecdhCurves: [P-256, X25519]}
proxyListenPort: 0
proxyInboundListenPort: 16006
proxyHttpPort: 3128
accessLogFile: /dev/stdout
accessLogFormat: "%START_TIME%"
accessLogEncoding: TEXT
enableEnvoyAccessLogService: true
disableEnvoyListenerLog: true
enableTracing: false
defaultServiceExportTo: [.]
defaultVirtualServiceExportTo: [., other]
defaultDestinationRuleExportTo: ["~"]
localityLbSetting: {enabled: true, failover: [{from: r1, to: r2}]}
defaultHttpRetryPolicy: {attempts: 3, retryOn: "5xx", perTryTimeout: 1s}
defaultInboundHttpRetryPolicy: {attempts: 0}
defaultTrafficPolicy:
  connectionPool: {tcp: {maxConnections: 7}}
  outlierDetection: {consecutive5xxErrors: 3}
pathNormalization: {normalization: MERGE_SLASHES}
inboundClusterStatName: in_%SERVICE%
outboundClusterStatName: "%SERVICE_FQDN%_%SUBSET_NAME%_%SERVICE_PORT_NAME%"
serviceSettings: [{settings: {clusterLocal: true}, hosts: ["*.kube-system.svc.cluster.local"]}]
extensionProviders:
- name: check
  envoyExtAuthzHttp:
    service: b/check.example.com
    port: 8000
    timeout: 2s
    pathPrefix: /check
    failOpen: true
    clearRouteCache: false
    statusOnError: "503"
    includeHeadersInCheck: [x-old]
    includeRequestHeadersInCheck: [x-a, x-b-*, "*-id"]
    includeAdditionalHeadersInCheck: {x-from: mesh}
    includeRequestBodyInCheck: {maxRequestBytes: 1024, allowPartialMessage: true}
    headersToUpstreamOnAllow: [x-user]
    headersToDownstreamOnDeny: [x-why]
    headersToDownstreamOnAllow: [set-cookie]
- name: check-grpc
  envoyExtAuthzGrpc:
    service: check.b.svc.cluster.local
    port: 9000
    timeout: 1s
    failOpen: false
    statusOnError: "401"
    includeRequestBodyInCheck: {maxRequestBytes: 1, packAsBytes: true}
- name: zipkin
  zipkin:
    service: zipkin.example.com
    port: 9411
    maxTagLength: 64
    enable64bitTraceId: true
    path: /spans
    traceContextOption: USE_B3_WITH_W3C_PROPAGATION
    timeout: 1s
    headers: [{name: x-a, value: b}]
- name: datadog
  datadog: {service: datadog.example.com, port: 8126, maxTagLength: 9}
- name: skywalking
  skywalking: {service: oap.example.com, port: 11800, accessToken: t}
- name: otel
  opentelemetry:
    service: otel.example.com
    port: 4317
    maxTagLength: 9
    http: {path: /v1/traces, timeout: 1s, headers: [{name: x-a, value: b}]}
    resourceDetectors: {environment: {}, dynatrace: {}}
- name: otel-grpc
  opentelemetry:
    service: otel.example.com
    port: 4317
    grpc: {timeout: 1s, initialMetadata: [{name: x-a, value: b}]}
- name: files
  envoyFileAccessLog: {path: /tmp/log, logFormat: {text: "%START_TIME%"}, omitEmptyValues: true}
- name: labelled
  envoyFileAccessLog: {logFormat: {labels: {code: "%RESPONSE_CODE%", of: {path: "%PATH%"}}}}
- name: requests
  envoyHttpAls:
    service: als.example.com
    port: 9001
    logName: a
    filterStateObjectsToLog: [b]
    additionalRequestHeadersToLog: [":path"]
    additionalResponseHeadersToLog: [x-a]
    additionalResponseTrailersToLog: [x-b]
- name: connections
  envoyTcpAls: {service: als.example.com, port: 9001, logName: a, filterStateObjectsToLog: [b]}
- name: records
  envoyOtelAls:
    service: als.example.com
    port: 9001
    logName: a
    logFormat: {text: "%PROTOCOL%", labels: {a: "%DURATION%"}}
ingressControllerMode: DEFAULT
ingressClass: edge
ingressService: edge-gateway
ingressSelector: edge
defaultProviders: {tracing: [otel], metrics: [prometheus], accessLogging: [Files, envoy]}
defaultConfig:
  discoveryAddress: istiod.istio-system.svc:15012
  drainDuration: 20s
  proxyHeaders:
    forwardedClientCert: SANITIZE_SET
    setCurrentClientCertDetails: {subject: true, cert: false, chain: true, dns: true, uri: true}
    requestId: {disabled: true}
    server: {disabled: false, value: shop}
    attemptCount: {disabled: true}
    envoyDebugHeaders: {disabled: true}
    metadataExchangeHeaders: {mode: IN_MESH}
    preserveHttp1HeaderCase: true
    xForwardedHost: {enabled: true}
    xForwardedPort: {enabled: true}
  gatewayTopology: {numTrustedProxies: 2, forwardClientCertDetails: SANITIZE, proxyProtocol: {}}
  zipkinAddress: zipkin:9411
  tracing:
    zipkin: {address: zipkin:9411}
    sampling: 10
    maxPathTagLength: 100
    enableIstioTags: false
    customTags: {a: {literal: {value: b}}, c: {environment: {name: D, defaultValue: e}}}
  connectionSettings: {profile: EDGE, httpIdleTimeout: 10s, http2InitialStreamWindowSize: 65536}
"""


def test_every_field_is_read_by_the_name_that_istio_has_for_it() -> None:
    document, _ = read_document(EVERY_FIELD, file="mesh.yaml")

    read = read_single(document)

    assert read.item is not None, read.problems
    assert read.notes == read.warnings == ()
    assert set(yaml.safe_load(EVERY_FIELD)) == set(MeshConfigSpec.__struct_encode_fields__)


def test_without_a_file_the_defaults_are_istios() -> None:
    spec = MeshConfigSpec()

    assert (spec.connect_timeout, spec.dns_refresh_rate) == (10.0, 60.0)
    assert (spec.proxy_listen_port, spec.proxy_inbound_listen_port) == (15001, 15006)
    assert spec.protocol_detection_timeout == 0.0
    assert spec.default_virtual_service_export_to == spec.default_destination_rule_export_to
    assert spec.default_service_export_to == ("*",)
    normalization = spec.path_normalization.normalization
    assert normalization is PathNormalizationType.DEFAULT
    assert normalization.normalizes
    assert not normalization.merges_slashes


def test_a_partial_file_leaves_the_other_fields_at_their_defaults() -> None:
    document, _ = read_document("outboundTrafficPolicy: {}\nproxyHttpPort: 0\n", file="mesh.yaml")

    read = read_single(document)

    assert read.item is not None
    assert read.item.spec == MeshConfigSpec()


MISTAKES = {
    "connectTimeout: 0s": ("connectTimeout", "must be at least 1ms"),
    "protocolDetectionTimeout: 1500us": (
        "protocolDetectionTimeout",
        "must be of whole milliseconds",
    ),
    "tcpKeepalive: {time: 10ms}": ("tcpKeepalive.time", "must be whole seconds"),
    "defaultVirtualServiceExportTo: ['*', a]": ("defaultVirtualServiceExportTo[0]", '"*" must'),
    "meshMTLS: {cipherSuites: [RC4]}": ("meshMTLS.cipherSuites[0]", 'unknown cipher "RC4"'),
    "meshMTLS: {ecdhCurves: [P-256]}": ("meshMTLS.ecdhCurves", "can be set in tlsDefaults only"),
    "tlsDefaults: {ecdhCurves: [P]}": ("tlsDefaults.ecdhCurves[0]", 'unknown curve "P"'),
    "tlsDefaults: {minProtocolVersion: TLSV1_1}": (
        "tlsDefaults.minProtocolVersion",
        "expected one of TLS_AUTO, TLSV1_2, TLSV1_3",
    ),
    "localityLbSetting: {failover: [{from: a, to: a}]}": ("localityLbSetting.failover[0].to", ""),
    "defaultTrafficPolicy: {connectionPool: {}}": (
        "defaultTrafficPolicy.connectionPool",
        "is empty",
    ),
    "inboundClusterStatName: '%HOST%'": ("inboundClusterStatName", "unknown part %HOST%"),
    "serviceSettings: [{hosts: ['a b']}]": ("serviceSettings[0].hosts[0]", '"a b" is not a host'),
    "accessLogFormat: '%NONE%'": ("accessLogFormat", "has %NONE%, which is none of"),
    "accessLogFormat: '%CEL(a ==)%'": ("accessLogFormat", "has %CEL(a ==)%, which Envoy would"),
    '{accessLogEncoding: JSON, accessLogFormat: \'{"a": "%REQ%"}\'}': (
        "accessLogFormat.a",
        "has %REQ%, which needs",
    ),
    "proxyInboundListenPort: 15001": ("proxyInboundListenPort", "15001 is proxyListenPort, too"),
    "proxyListenPort: 65536": ("proxyListenPort", "expected a number from -1 to 65535"),
    "defaultHttpRetryPolicy: {attempts: -1}": ("defaultHttpRetryPolicy.attempts", ""),
    "defaultHttpRetryPolicy: {attempts: 1, retryOn: 7xx}": ("defaultHttpRetryPolicy.retryOn", ""),
    "defaultConfig: {proxyHeaders: {server: {value: '%'}}}": (
        "defaultConfig.proxyHeaders.server.value",
        "has a %",
    ),
    "defaultConfig: {connectionSettings: {httpRequestTimeout: 1us}}": (
        "defaultConfig.connectionSettings.httpRequestTimeout",
        "must be at least 1ms",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), MISTAKES.items())
def test_a_mistake_is_reported_with_its_field(text: str, wanted: tuple[str, str]) -> None:
    mistakes = MESH_CONFIG.read(yaml.safe_load(text), (), Metadata(name="default")).mistakes

    (mistake,) = [(field_name(path), message) for path, message in mistakes]
    assert (mistake[0], mistake[1][: len(wanted[1])]) == wanted
