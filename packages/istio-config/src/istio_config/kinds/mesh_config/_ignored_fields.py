"""The fields of Istio's MeshConfig that are accepted and have no effect on the control plane.

The fields that have an effect are in `_spec`. Source: Istio's API reference.
"""

from istio_config.kinds.mesh_config._proxy_config import ProxyConfig

MESH_FIELDS = frozenset(
    {
        "accessLogging",
        "ca",
        "caCertificates",
        "certificates",
        "configSources",
        "discoverySelectors",
        "enablePrometheusMerge",
        "ingressClass",
        "ingressControllerMode",
        "ingressSelector",
        "ingressService",
        "thriftConfig",
        "verifyCertificateAtClient",
    }
)
"""Further fields of Istio's MeshConfig: always accepted, so that one file is for both."""
AGENT_FIELDS = frozenset(
    {
        "availabilityZone",
        "binaryPath",
        "caCertificatesPem",
        "concurrency",
        "configPath",
        "controlPlaneAuthPolicy",
        "customConfigFile",
        "envoyAccessLogService",
        "envoyMetricsService",
        "envoyMetricsServiceAddress",
        "extraStatTags",
        "fileFlushInterval",
        "fileFlushMinSizeKb",
        "holdApplicationUntilProxyStarts",
        "image",
        "meshId",
        "parentShutdownDuration",
        "privateKeyProvider",
        "proxyAdminPort",
        "proxyBootstrapTemplatePath",
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
        "tracingServiceName",
    }
)
"""The fields of Istio's ProxyConfig, in `defaultConfig`, except those below.

Agents read them from their own files and environment.
"""
DEFAULT_CONFIG_FIELDS = ProxyConfig.__struct_encode_fields__
"""The fields of `defaultConfig` that the control plane reads too."""
