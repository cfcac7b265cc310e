"""Sidecar: the part of the mesh that workloads reach, and where their own proxies listen."""

from istio_config.kinds.sidecar._default_endpoint import (
    InstanceEndpoint,
    LoopbackEndpoint,
    SocketEndpoint,
    parse_default_endpoint,
)
from istio_config.kinds.sidecar._egress_hosts import ANY, EgressHost, parse_egress_host
from istio_config.kinds.sidecar._kind import SIDECAR
from istio_config.kinds.sidecar._spec import (
    CaptureMode,
    EgressListener,
    IngressListener,
    SidecarPort,
    SidecarSpec,
    SidecarTrafficMode,
    SidecarTrafficPolicy,
)

__all__ = [
    "SidecarTrafficPolicy",
    "ANY",
    "CaptureMode",
    "EgressHost",
    "EgressListener",
    "IngressListener",
    "InstanceEndpoint",
    "LoopbackEndpoint",
    "SIDECAR",
    "SidecarPort",
    "SidecarSpec",
    "SidecarTrafficMode",
    "SocketEndpoint",
    "parse_default_endpoint",
    "parse_egress_host",
]
