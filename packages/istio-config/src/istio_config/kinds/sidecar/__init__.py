"""Sidecar: the part of the mesh that workloads reach, and where their own proxies listen."""

from istio_config.kinds.sidecar._egress import ANY, EgressHost, EgressListener, parse_egress_host
from istio_config.kinds.sidecar._ingress import (
    IngressListener,
    InstanceEndpoint,
    LoopbackEndpoint,
    OriginalEndpoint,
    SocketEndpoint,
    parse_default_endpoint,
)
from istio_config.kinds.sidecar._kind import (
    SIDECAR,
    SidecarSpec,
    SidecarTrafficMode,
    SidecarTrafficPolicy,
)
from istio_config.kinds.sidecar._ports import CaptureMode, SidecarPort

__all__ = [
    "SidecarTrafficPolicy",
    "ANY",
    "CaptureMode",
    "EgressHost",
    "EgressListener",
    "IngressListener",
    "InstanceEndpoint",
    "LoopbackEndpoint",
    "OriginalEndpoint",
    "SIDECAR",
    "SidecarPort",
    "SidecarSpec",
    "SidecarTrafficMode",
    "SocketEndpoint",
    "parse_default_endpoint",
    "parse_egress_host",
]
