"""An xDS server core: subscriptions, pushes and gRPC serving for control planes in Python.

What only some servers use is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from xds_server._config import ServerConfig
from xds_server._environment import SERVER_ENVIRONMENT
from xds_server._errors import ListenError, Refused, XdsServerError
from xds_server._server import XdsServer
from xds_server.monitoring._observer import NullObserver, StreamObserver
from xds_server.monitoring._status import ClientStatus, Nack, PushStatus, TypePush, TypeStatus
from xds_server.protocol import _type_urls as type_urls
from xds_server.protocol._by_identity import ByIdentity
from xds_server.protocol._node import JSON, Node
from xds_server.protocol._request import ClientError, DeltaRequest, SotwRequest
from xds_server.protocol._resource import Resource, content_version
from xds_server.protocol._response import Response
from xds_server.protocol._watch import Watch
from xds_server.pushing._push_request import ConfigKey, PushRequest, Updates
from xds_server.serving._fetch import RestAnswer, answer_rest
from xds_server.serving._listeners import (
    Bound,
    Listener,
    PlainListener,
    TlsListener,
    UnixListener,
    server_context,
)
from xds_server.serving._peers import peer_of
from xds_server.serving._serving import RpcHandler, serving
from xds_server.serving._socket_path import prepare_socket_path
from xds_server.sources._generated import Basis, Generated
from xds_server.sources._generator import Client, ClientObserver, Generator
from xds_server.streams._admission import Admission, Admit, Peer

if TYPE_CHECKING:
    from xds_server.serving._csds import ClientStatusHandler
    from xds_server.sources._connected_clients import ConnectedClients
    from xds_server.sources._linear_store import LinearStore
    from xds_server.sources._mux import Mux
    from xds_server.sources._snapshot_store import Snapshot, SnapshotStore

__all__ = [
    # what is served
    "Basis",
    "ClientObserver",
    "Generated",
    "Generator",
    "Resource",
    "content_version",
    "type_urls",
    # from where, ready-made or kept
    "ConnectedClients",
    "LinearStore",
    "Mux",
    "Snapshot",
    "SnapshotStore",
    # to whom
    "JSON",
    "Admission",
    "Admit",
    "ByIdentity",
    "Client",
    "Node",
    "Peer",
    "Refused",
    "Watch",
    "peer_of",
    # when
    "ConfigKey",
    "PushRequest",
    "Updates",
    # the server
    "SERVER_ENVIRONMENT",
    "ServerConfig",
    "XdsServer",
    "RestAnswer",
    "answer_rest",
    "RpcHandler",
    "serving",
    # where
    "Bound",
    "Listener",
    "PlainListener",
    "TlsListener",
    "UnixListener",
    "prepare_socket_path",
    "server_context",
    # how it goes
    "ClientError",
    "ClientStatus",
    "ClientStatusHandler",
    "DeltaRequest",
    "ListenError",
    "NullObserver",
    "Nack",
    "PushStatus",
    "Response",
    "SotwRequest",
    "StreamObserver",
    "TypePush",
    "TypeStatus",
    "XdsServerError",
]

_LOADED_WHEN_USED = {
    "ClientStatusHandler": "serving._csds",
    "ConnectedClients": "sources._connected_clients",
    "LinearStore": "sources._linear_store",
    "Mux": "sources._mux",
    "Snapshot": "sources._snapshot_store",
    "SnapshotStore": "sources._snapshot_store",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
