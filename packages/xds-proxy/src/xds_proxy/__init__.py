"""Relays Envoy's ADS stream to its control plane as raw bytes.

State-of-the-world and delta; only type URL, version, nonce and error detail are read from the wire.
"""

from mesh_identity import SYSTEM, SystemRoots
from xds_proxy._config import RelayConfig, UpstreamConfig
from xds_proxy._connection import Counters
from xds_proxy._dialect import resource_bodies
from xds_proxy._errors import (
    ConfigError,
    InterceptorRefused,
    SocketError,
    WireError,
    XdsProxyError,
)
from xds_proxy._interception import Interceptor
from xds_proxy._ledger import TypeStatus
from xds_proxy._observation import ResponseObserver
from xds_proxy._relay import Relay, RelayStatus, relaying

__all__ = [
    # run
    "Relay",
    "relaying",
    # configuration
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
    # hearing of what passes to Envoy
    "ResponseObserver",
    # errors
    "ConfigError",
    "SocketError",
    "WireError",
    "XdsProxyError",
]
