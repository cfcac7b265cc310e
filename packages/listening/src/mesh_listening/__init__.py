"""Listening sockets that one caller cannot take from all others, and the way from there to gRPC
and HTTP servers.

`mesh_listening.grpc_server` needs gRPC, and `mesh_listening.prometheus` needs prometheus-client;
they are imported by programs that use these anyway.
"""

from mesh_listening._errors import ListenError
from mesh_listening.acceptors._accepted_peers import (
    AcceptedPeer,
    accepted_peer,
    disconnect,
    hold_room,
    sent_bytes,
)
from mesh_listening.acceptors._grpc_acceptor import GrpcAcceptor, grpc_acceptor
from mesh_listening.acceptors._inside import Inside
from mesh_listening.acceptors._port import Port, PortCounts
from mesh_listening.acceptors._protocol_acceptor import accepting
from mesh_listening.limits._limits import (
    GRPC_LIMITS,
    HTTP_LIMITS,
    SERVED_WHEN_OUT_OF_FILES,
    UNIX_LIMITS,
    ConnectionLimits,
    raise_open_files_limit,
)
from mesh_listening.limits._open_files import out_of_files
from mesh_listening.limits._pending_writes import PendingWrites, Reader
from mesh_listening.limits._refusals import Reason
from mesh_listening.limits._request_room import HeldRoom, RequestRoom
from mesh_listening.sockets._local_pages import is_loopback, local_page_refusal
from mesh_listening.sockets._peers import (
    AllowedPeers,
    PeerCredentials,
    check_credentials_supported,
    credentials_of,
    peer_name,
)
from mesh_listening.sockets._tcp import format_address, listening_on, loopback_host
from mesh_listening.sockets._unix import (
    LONGEST_SOCKET_PATH_BYTES,
    SocketFile,
    inspect_socket_path,
    listening_at,
    prepare_socket_path,
)

__all__ = [
    # sockets
    "LONGEST_SOCKET_PATH_BYTES",
    "SocketFile",
    "listening_at",
    "listening_on",
    "inspect_socket_path",
    "loopback_host",
    "prepare_socket_path",
    "format_address",
    # how many, how long
    "GRPC_LIMITS",
    "HTTP_LIMITS",
    "SERVED_WHEN_OUT_OF_FILES",
    "UNIX_LIMITS",
    "ConnectionLimits",
    "out_of_files",
    "raise_open_files_limit",
    # peers
    "AllowedPeers",
    "AcceptedPeer",
    "PeerCredentials",
    "accepted_peer",
    "check_credentials_supported",
    "credentials_of",
    "peer_name",
    # pages for this machine only
    "is_loopback",
    "local_page_refusal",
    # peers that do not read
    "Reader",
    "PendingWrites",
    "disconnect",
    "sent_bytes",
    # requests that are being received
    "HeldRoom",
    "RequestRoom",
    "hold_room",
    # accepting
    "GrpcAcceptor",
    "Inside",
    "Port",
    "PortCounts",
    "Reason",
    "accepting",
    "grpc_acceptor",
    # errors
    "ListenError",
]
