"""The fields of Istio's MeshConfig that are accepted and have no effect on the control plane.

The fields that have an effect are in `_spec`. Source: Istio's API reference.
"""

from collections.abc import Iterator

import msgspec

from istio_config.kinds.fields import Labels, SpecFields
from istio_config.kinds.mesh_config._proxy_config import ProxyConfig
from mesh_configfile import FieldPath, Value
from mesh_configfile.shapes import Finding, differences

MESH_FIELDS = frozenset(
    {
        "accessLogging",
        "ca",
        "caCertificates",
        "certificates",
        "configSources",
        "discoverySelectors",
        "enablePrometheusMerge",
        "hboneIdleTimeout",
        "serviceScopeConfigs",
        "thriftConfig",
        "verifyCertificateAtClient",
        "zoneAwareLbSetting",
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


class _ProxyMetadata(SpecFields, frozen=True):
    """The variables of agents, as the mesh config has them."""

    proxy_metadata: Labels = msgspec.field(default_factory=dict)


def proxy_metadata_mistakes(value: Value, path: FieldPath) -> Iterator[Finding]:
    """Yield the values of `proxyMetadata` that are no texts, which Istio does not read."""
    yield from differences({"proxyMetadata": value}, _ProxyMetadata, path[:-1])
