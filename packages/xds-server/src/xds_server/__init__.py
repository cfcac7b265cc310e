"""An xDS server core: subscriptions, pushes and gRPC serving for control planes in Python.

The parts are loaded when they are first used, so that who makes resources does not load gRPC.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
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
    from xds_server.sources._answerer import Answerer
    from xds_server.sources._connected_clients import ConnectedClients
    from xds_server.sources._generated import EditBase, Generated
    from xds_server.sources._generator import Client, ClientObserver, Generator
    from xds_server.sources._linear_store import LinearStore
    from xds_server.sources._mux import Mux
    from xds_server.sources._snapshot_store import Snapshot, SnapshotStore
    from xds_server.streams._admission import Admission, Admit, Peer
    from xds_server.transport._csds import ClientStatusHandler
    from xds_server.transport._fetch import RestAnswer, answer_rest
    from xds_server.transport._listeners import (
        Bound,
        Listener,
        PlainListener,
        TlsListener,
        UnixListener,
        server_context,
    )
    from xds_server.transport._peers import peer_of
    from xds_server.transport._serving import RpcHandler, serving
    from xds_server.transport._socket_path import prepare_socket_path

__all__ = [
    # what is served
    "ClientObserver",
    "EditBase",
    "Generated",
    "Answerer",
    "Generator",
    "Resource",
    "content_version",
    "type_urls",
    # from where, prepared or kept
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
    "Admission": "streams._admission",
    "Admit": "streams._admission",
    "answer_rest": "transport._fetch",
    "EditBase": "sources._generated",
    "Bound": "transport._listeners",
    "ByIdentity": "protocol._by_identity",
    "Client": "sources._generator",
    "ClientError": "protocol._request",
    "ClientObserver": "sources._generator",
    "ClientStatus": "monitoring._status",
    "ClientStatusHandler": "transport._csds",
    "ConfigKey": "pushing._push_request",
    "ConnectedClients": "sources._connected_clients",
    "content_version": "protocol._resource",
    "DeltaRequest": "protocol._request",
    "Generated": "sources._generated",
    "Answerer": "sources._answerer",
    "Generator": "sources._generator",
    "JSON": "protocol._node",
    "LinearStore": "sources._linear_store",
    "Listener": "transport._listeners",
    "ListenError": "_errors",
    "Mux": "sources._mux",
    "Nack": "monitoring._status",
    "Node": "protocol._node",
    "NullObserver": "monitoring._observer",
    "Peer": "streams._admission",
    "peer_of": "transport._peers",
    "PlainListener": "transport._listeners",
    "prepare_socket_path": "transport._socket_path",
    "PushRequest": "pushing._push_request",
    "PushStatus": "monitoring._status",
    "Refused": "_errors",
    "Resource": "protocol._resource",
    "Response": "protocol._response",
    "RestAnswer": "transport._fetch",
    "RpcHandler": "transport._serving",
    "server_context": "transport._listeners",
    "SERVER_ENVIRONMENT": "_environment",
    "ServerConfig": "_config",
    "serving": "transport._serving",
    "Snapshot": "sources._snapshot_store",
    "SnapshotStore": "sources._snapshot_store",
    "SotwRequest": "protocol._request",
    "StreamObserver": "monitoring._observer",
    "TlsListener": "transport._listeners",
    "TypePush": "monitoring._status",
    "TypeStatus": "monitoring._status",
    "UnixListener": "transport._listeners",
    "Updates": "pushing._push_request",
    "Watch": "protocol._watch",
    "XdsServer": "_server",
    "XdsServerError": "_errors",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "type_urls":
            value: object = import_module(f"{__name__}.protocol._type_urls")
        elif (home := _LOADED_WHEN_USED.get(name)) is not None:
            value = getattr(import_module(f"{__name__}.{home}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value
