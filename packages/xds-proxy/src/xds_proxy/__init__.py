"""Relays Envoy's ADS stream to its control plane as raw bytes.

State of the world and delta; of each message only a few fields are read from the wire.

Importing this package loads its configuration; the rest, and gRPC, is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mesh_identity import SYSTEM, ClientCertificate, SystemRoots
from mesh_protowire import WireError
from xds_proxy._config import (
    MAX_STREAMS,
    FurtherAddress,
    OnDisconnect,
    RelayConfig,
    SavedConfig,
    UpstreamConfig,
    address_fault,
)
from xds_proxy._errors import (
    ConfigError,
    InterceptorRefused,
    NoAnswer,
    NotConnected,
    RewriteRefused,
    SocketError,
    XdsProxyError,
)

if TYPE_CHECKING:
    from xds_proxy._relay import Relay, relaying
    from xds_proxy._relay_status import HeldConfiguration, RelayStatus
    from xds_proxy.answers._learning import AcceptedResponses
    from xds_proxy.answers._response_observer import ResponseObserver
    from xds_proxy.own_types._interception import Interceptor
    from xds_proxy.protocol._dialect import resource_bodies
    from xds_proxy.quarantine._quarantine import QuarantinedResource
    from xds_proxy.rewriting._rewriting import Rewriter
    from xds_proxy.saved._saved_status import SavedStatus, SavedType
    from xds_proxy.session._held import Held
    from xds_proxy.status._acks_and_nacks import RefusedResource, TypeStatus
    from xds_proxy.status._counters import Counters
    from xds_proxy.upstream._selection import ControlPlaneStatus

__all__ = [
    # run
    "Relay",
    "relaying",
    # configuration
    "MAX_STREAMS",
    "SYSTEM",
    "ClientCertificate",
    "FurtherAddress",
    "OnDisconnect",
    "RelayConfig",
    "SavedConfig",
    "SystemRoots",
    "UpstreamConfig",
    "address_fault",
    # status
    "ControlPlaneStatus",
    "Counters",
    "QuarantinedResource",
    "RefusedResource",
    "RelayStatus",
    "SavedStatus",
    "SavedType",
    "TypeStatus",
    # what Envoy has
    "AcceptedResponses",
    "Held",
    "HeldConfiguration",
    # types that the agent consumes
    "Interceptor",
    "InterceptorRefused",
    "resource_bodies",
    # types that the agent changes on their way to Envoy
    "RewriteRefused",
    "Rewriter",
    # observing responses to Envoy
    "ResponseObserver",
    # errors
    "ConfigError",
    "NoAnswer",
    "NotConnected",
    "SocketError",
    "WireError",
    "XdsProxyError",
]

_LOADED_WHEN_USED = {
    "Relay": "_relay",
    "relaying": "_relay",
    "HeldConfiguration": "_relay_status",
    "RelayStatus": "_relay_status",
    "AcceptedResponses": "answers._learning",
    "ResponseObserver": "answers._response_observer",
    "Interceptor": "own_types._interception",
    "resource_bodies": "protocol._dialect",
    "QuarantinedResource": "quarantine._quarantine",
    "Rewriter": "rewriting._rewriting",
    "SavedStatus": "saved._saved_status",
    "SavedType": "saved._saved_status",
    "Held": "session._held",
    "RefusedResource": "status._acks_and_nacks",
    "TypeStatus": "status._acks_and_nacks",
    "Counters": "status._counters",
    "ControlPlaneStatus": "upstream._selection",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
