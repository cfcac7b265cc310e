"""The fields of Istio's MeshConfig that are accepted and have no effect on the control plane.

The fields that have an effect are in `_mesh_config`. Source: Istio's API reference.
"""

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
"""The fields of Istio's ProxyConfig, which `defaultConfig` holds, except those below.

Agents read them from their own files and environment.
"""

DEFAULT_CONFIG_FIELDS = ("discoveryAddress", "drainDuration")
"""The fields of `defaultConfig` that the control plane reads too."""
