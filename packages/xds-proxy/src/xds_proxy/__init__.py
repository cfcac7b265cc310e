"""Relays Envoy's ADS stream to its control plane as raw bytes.

State of the world and delta; of each message only a few fields are read from the wire.
"""

from mesh_identity import SYSTEM, SystemRoots
from xds_proxy._config import MAX_STREAMS, RelayConfig, UpstreamConfig
from xds_proxy._errors import (
    ConfigError,
    InterceptorRefused,
    SocketError,
    WireError,
    XdsProxyError,
)
from xds_proxy._relay import Relay, RelayStatus, relaying
from xds_proxy.protocol._dialect import resource_bodies
from xds_proxy.status._acks_and_nacks import TypeStatus
from xds_proxy.status._counters import Counters
from xds_proxy.streams._interception import Interceptor
from xds_proxy.streams._response_observer import ResponseObserver

__all__ = [
    # run
    "Relay",
    "relaying",
    # configuration
    "MAX_STREAMS",
    "SYSTEM",
    "RelayConfig",
    "SystemRoots",
    "UpstreamConfig",
    # status
    "Counters",
    "RelayStatus",
    "TypeStatus",
    # types that the agent consumes
    "Interceptor",
    "InterceptorRefused",
    "resource_bodies",
    # being told of responses to Envoy
    "ResponseObserver",
    # errors
    "ConfigError",
    "SocketError",
    "WireError",
    "XdsProxyError",
]
