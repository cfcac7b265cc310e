"""The kinds and fields that Istio has and this control plane has not yet.

They are known by name, so that they are not called unknown and can be accepted on request.

Source: Istio's API reference, with the kinds of the Kubernetes Gateway API that Istio reads.
"""

from mesh_configfile import Value

_NETWORKING = "networking.istio.io"
_SECURITY = "security.istio.io"
_GATEWAY_API = "gateway.networking.k8s.io"

UNSUPPORTED_KINDS = frozenset(
    {
        (_NETWORKING, "DestinationRule"),
        (_NETWORKING, "EnvoyFilter"),
        (_NETWORKING, "Gateway"),
        (_NETWORKING, "ProxyConfig"),
        (_NETWORKING, "Sidecar"),
        (_NETWORKING, "VirtualService"),
        (_NETWORKING, "WorkloadGroup"),
        (_SECURITY, "AuthorizationPolicy"),
        (_SECURITY, "RequestAuthentication"),
        ("telemetry.istio.io", "Telemetry"),
        ("extensions.istio.io", "TrafficExtension"),
        ("extensions.istio.io", "WasmPlugin"),
        (_GATEWAY_API, "BackendTLSPolicy"),
        (_GATEWAY_API, "GRPCRoute"),
        (_GATEWAY_API, "Gateway"),
        (_GATEWAY_API, "GatewayClass"),
        (_GATEWAY_API, "HTTPRoute"),
        (_GATEWAY_API, "ReferenceGrant"),
        (_GATEWAY_API, "TCPRoute"),
        (_GATEWAY_API, "TLSRoute"),
        (_GATEWAY_API, "UDPRoute"),
    }
)

MESH_FIELDS = frozenset(
    {
        "accessLogging",
        "ca",
        "caCertificates",
        "certificates",
        "configSources",
        "defaultDestinationRuleExportTo",
        "defaultHttpRetryPolicy",
        "defaultInboundHttpRetryPolicy",
        "defaultProviders",
        "defaultTrafficPolicy",
        "defaultVirtualServiceExportTo",
        "disableEnvoyListenerLog",
        "discoverySelectors",
        "enableEnvoyAccessLogService",
        "enablePrometheusMerge",
        "enableTracing",
        "extensionProviders",
        "h2UpgradePolicy",
        "inboundClusterStatName",
        "inboundTrafficPolicy",
        "ingressClass",
        "ingressControllerMode",
        "ingressSelector",
        "ingressService",
        "localityLbSetting",
        "meshMTLS",
        "outboundClusterStatName",
        "pathNormalization",
        "protocolDetectionTimeout",
        "proxyInboundListenPort",
        "proxyListenPort",
        "serviceSettings",
        "tcpKeepalive",
        "thriftConfig",
        "tlsDefaults",
        "verifyCertificateAtClient",
    }
)
"""Istio's further MeshConfig fields: always accepted, so that one file serves both."""

AGENT_FIELDS = frozenset(
    {
        "availabilityZone",
        "binaryPath",
        "caCertificatesPem",
        "concurrency",
        "configPath",
        "connectionSettings",
        "controlPlaneAuthPolicy",
        "customConfigFile",
        "envoyAccessLogService",
        "envoyMetricsService",
        "envoyMetricsServiceAddress",
        "extraStatTags",
        "fileFlushInterval",
        "fileFlushMinSizeKb",
        "gatewayTopology",
        "holdApplicationUntilProxyStarts",
        "image",
        "interceptionMode",
        "meshId",
        "parentShutdownDuration",
        "privateKeyProvider",
        "proxyAdminPort",
        "proxyBootstrapTemplatePath",
        "proxyHeaders",
        "proxyMetadata",
        "proxyStatsMatcher",
        "readinessProbe",
        "runtimeValues",
        "serviceCluster",
        "statNameLength",
        "statsCompression",
        "statsdUdpAddress",
        "statusPort",
        "terminationDrainDuration",
        "tracing",
        "tracingServiceName",
        "zipkinAddress",
    }
)
"""Istio's ProxyConfig, which `defaultConfig` holds, but for the fields below: agents act on it, who
read it from their own files and environment."""

DEFAULT_CONFIG_FIELDS = ("discoveryAddress", "drainDuration")
"""The fields of `defaultConfig` that the control plane reads too."""


def is_unsupported_kind(api_version: Value, kind: Value) -> bool:
    """Tell whether Istio reads objects of this kind."""
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
    return any(kind == name and group in ("", known) for known, name in UNSUPPORTED_KINDS)
