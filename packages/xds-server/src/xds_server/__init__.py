"""An xDS server core: subscriptions, pushes and gRPC serving for control planes in Python.

What only some servers use is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _type_urls as type_urls
from ._admission import Admission, Admit, Peer
from ._config import ServerConfig
from ._environment import SERVER_ENVIRONMENT
from ._errors import ListenError, Refused, XdsServerError
from ._fetch import RestAnswer, answer_rest
from ._generator import Client, ClientObserver, Generated, Generator, Watch
from ._listeners import Bound, Listener, PlainListener, TlsListener, UnixListener, server_context
from ._node import JSON, Node
from ._observer import NullObserver, StreamObserver
from ._peers import peer_of
from ._push import ConfigKey, PushRequest, Updates
from ._request import ClientError, DeltaRequest, SotwRequest
from ._resource import Resource, content_version
from ._server import XdsServer
from ._serving import serving
from ._status import ClientStatus, Nack, TypeStatus
from ._subscription import Response
from ._unix import prepare_socket_path

if TYPE_CHECKING:
    from ._cache import DependencyCache, Ticket
    from ._connected import ConnectedClients
    from ._csds import ClientStatusHandler
    from ._linear import LinearStore
    from ._mux import Mux
    from ._snapshots import Snapshot, SnapshotStore

__all__ = [
    # what is served
    "ClientObserver",
    "Generated",
    "Generator",
    "Resource",
    "content_version",
    "type_urls",
    # from where, ready-made or kept
    "ConnectedClients",
    "DependencyCache",
    "LinearStore",
    "Mux",
    "Snapshot",
    "SnapshotStore",
    "Ticket",
    # to whom
    "JSON",
    "Admission",
    "Admit",
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
    "Response",
    "SotwRequest",
    "StreamObserver",
    "TypeStatus",
    "XdsServerError",
]

_LOADED_WHEN_USED = {
    "ClientStatusHandler": "_csds",
    "ConnectedClients": "_connected",
    "DependencyCache": "_cache",
    "LinearStore": "_linear",
    "Mux": "_mux",
    "Snapshot": "_snapshots",
    "SnapshotStore": "_snapshots",
    "Ticket": "_cache",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
