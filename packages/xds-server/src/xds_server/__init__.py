"""An xDS server core: subscriptions, pushes and gRPC serving for control planes in Python."""

from . import _type_urls as type_urls
from ._admission import Admission, Admit, Peer
from ._cache import DependencyCache, Ticket
from ._config import ServerConfig
from ._csds import ClientStatusHandler
from ._errors import ListenError, Refused, XdsServerError
from ._fetch import RestAnswer, answer_rest
from ._generator import Client, Generated, Generator, Watch
from ._linear import LinearStore
from ._listeners import Bound, Listener, PlainListener, TlsListener, UnixListener, server_context
from ._mux import Mux
from ._node import JSON, Node
from ._observer import LooksAway, StreamObserver
from ._peers import peer_of
from ._push import ConfigKey, PushRequest
from ._request import ClientError, DeltaRequest, SotwRequest
from ._resource import Resource, content_version
from ._server import XdsServer
from ._serving import serving
from ._snapshots import Snapshot, SnapshotStore
from ._status import ClientStatus, Nack, TypeStatus
from ._subscription import Response

__all__ = [
    # what is served
    "Generated",
    "Generator",
    "Resource",
    "content_version",
    "type_urls",
    # from where, ready-made or kept
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
    # the server
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
    "server_context",
    # how it goes
    "ClientError",
    "ClientStatus",
    "ClientStatusHandler",
    "DeltaRequest",
    "ListenError",
    "LooksAway",
    "Nack",
    "Response",
    "SotwRequest",
    "StreamObserver",
    "TypeStatus",
    "XdsServerError",
]
