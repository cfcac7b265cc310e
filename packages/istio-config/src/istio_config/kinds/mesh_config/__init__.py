"""MeshConfig: the settings of a whole mesh, with Istio's defaults."""

from istio_config.kinds.mesh_config._ignored_fields import (
    AGENT_FIELDS,
    DEFAULT_CONFIG_FIELDS,
    MESH_FIELDS,
)
from istio_config.kinds.mesh_config._kind import MESH_CONFIG
from istio_config.kinds.mesh_config._proxy_config import (
    DRAIN_TIME,
    ClientCertDetails,
    ConnectionProfile,
    ConnectionSettings,
    EscapedSlashesAction,
    GatewayTopology,
    InterceptionMode,
    ProxyConfig,
    ProxyHeaders,
    ProxyTracing,
    ServerHeader,
    UnderscoresAction,
    drain_time,
    proxy_config_mistakes,
    whole_seconds,
)
from istio_config.kinds.mesh_config._spec import (
    InboundTrafficPolicyMode,
    LeastTlsVersion,
    LogEncoding,
    MeshConfigSpec,
    MeshH2UpgradePolicy,
    MeshTls,
    TrafficPolicyMode,
)

__all__ = [
    "AGENT_FIELDS",
    "ClientCertDetails",
    "ConnectionProfile",
    "ConnectionSettings",
    "DEFAULT_CONFIG_FIELDS",
    "DRAIN_TIME",
    "EscapedSlashesAction",
    "GatewayTopology",
    "InboundTrafficPolicyMode",
    "InterceptionMode",
    "LeastTlsVersion",
    "LogEncoding",
    "MESH_CONFIG",
    "MESH_FIELDS",
    "MeshConfigSpec",
    "MeshH2UpgradePolicy",
    "MeshTls",
    "ProxyConfig",
    "ProxyHeaders",
    "ProxyTracing",
    "ServerHeader",
    "TrafficPolicyMode",
    "UnderscoresAction",
    "drain_time",
    "proxy_config_mistakes",
    "whole_seconds",
]
