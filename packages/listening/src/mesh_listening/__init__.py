"""Listening sockets that one caller cannot take from all others, and the way from there to gRPC
and HTTP servers.

`mesh_listening.grpc_server` is the part that needs gRPC, and `mesh_listening.prometheus` the one
that needs prometheus-client; they are imported by who has these anyway.
"""

from mesh_listening._behind import Behind, behind, hang_up
from mesh_listening._episodes import Episodes
from mesh_listening._errors import ListenError
from mesh_listening._front import Front, fronting
from mesh_listening._limits import (
    GRPC_LIMITS,
    HTTP_LIMITS,
    UNIX_LIMITS,
    ConnectionLimits,
    raise_open_files_limit,
)
from mesh_listening._peers import (
    AllowedPeers,
    PeerCredentials,
    check_credentials_supported,
    credentials_of,
)
from mesh_listening._port import Port, PortCounts
from mesh_listening._protocols import accepting
from mesh_listening._refusals import Reason
from mesh_listening._tcp import listening_on, loopback_host, printed
from mesh_listening._unix import (
    LONGEST_SOCKET_PATH_BYTES,
    SocketFile,
    listening_at,
    look_at,
    prepare_socket_path,
)
from mesh_listening._untaken import Reader, Untaken

__all__ = [
    # sockets
    "LONGEST_SOCKET_PATH_BYTES",
    "SocketFile",
    "listening_at",
    "listening_on",
    "look_at",
    "loopback_host",
    "prepare_socket_path",
    "printed",
    # how many, how long
    "GRPC_LIMITS",
    "HTTP_LIMITS",
    "UNIX_LIMITS",
    "ConnectionLimits",
    "raise_open_files_limit",
    # who
    "AllowedPeers",
    "Behind",
    "PeerCredentials",
    "behind",
    "check_credentials_supported",
    "credentials_of",
    # telling of what happens again and again
    "Episodes",
    # who does not read
    "Reader",
    "Untaken",
    "hang_up",
    # accepting
    "Front",
    "Port",
    "PortCounts",
    "Reason",
    "accepting",
    "fronting",
    # errors
    "ListenError",
]
