"""How many connections a port accepts, from one peer and from all, and how long each may be silent.

The defaults fit real meshes rather than the smallest memory: hundreds of agents may come from one
host or through one NAT, each with a stream and now and then a call to the CA, and all of them again
at once when a control plane is replaced.
"""

import resource
from typing import NamedTuple

FILES_PER_GRPC_CONNECTION = 3
"""The client's, and both ends of the inner connection."""
_FOREIGN_CONNECTIONS = 4_096


class ConnectionLimits(NamedTuple):
    """Bounds of one port, Unix sockets included.

    port: the most connections at once; further ones are closed as soon as they are accepted.
    peer: the most from one peer, which is an IPv4 address, an IPv6 network of 64 bits, or, on a
        Unix socket, a process. Well below `port`, so that one peer can't keep the others out.
        On Unix sockets all processes of another user together have `user`, half of the port.
    first_byte_s: a connection that sends nothing is closed after this long; until then it costs
        little.
    handshake_s: the most time for a TLS handshake, HTTP/2's preface, or one request's HTTP headers.
    idle_s: a connection with no request (HTTP) or no stream (gRPC) is ended after this long.
    stalled_s: a connection whose peer reads nothing of what was sent is ended after this long.
    """

    port: int
    peer: int
    first_byte_s: float = 10.0
    handshake_s: float = 10.0
    idle_s: float = 300.0
    stalled_s: float = 60.0

    @property
    def user(self) -> int:
        """The most from all processes of one other user, on a Unix socket."""
        return max(self.peer, self.port // 2)

    @property
    def inside(self) -> int:
        """The most connections of the server behind an acceptor, which local processes can reach.

        Those of the acceptor, and room for foreign ones, which then can't keep the acceptor's out.
        """
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        foreign = max(self.port, _FOREIGN_CONNECTIONS)
        if allowed != resource.RLIM_INFINITY:
            foreign = min(foreign, allowed // 8)
        return self.port + foreign

    def within_open_files(self, files_each: int) -> "ConnectionLimits":
        """Return limits that need at most three quarters of the files this process may open.

        So a port that is full leaves enough files for the program's own work.
        """
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed == resource.RLIM_INFINITY:
            return self
        port = max(2, min(self.port, allowed * 3 // 4 // files_each))
        return self._replace(port=port, peer=max(1, min(self.peer, port // 2)))


GRPC_LIMITS = ConnectionLimits(port=16_384, peer=4_096)
"""For ports that agents keep connections to."""
HTTP_LIMITS = ConnectionLimits(port=2_048, peer=512, idle_s=75.0)
"""For ports of probes and scrapers, which send one request at a time."""
UNIX_LIMITS = ConnectionLimits(port=1_024, peer=256)
"""For Unix sockets that Envoy, or programs without a proxy, connect to."""


SERVED_WHEN_OUT_OF_FILES = 4
"""Connections of such ports that are served when the process can open no more files."""


def raise_open_files_limit() -> None:
    """Raise the soft RLIMIT_NOFILE of this process to the hard one.

    For commands, at their start. Each connection is a file, and the usual soft limit of 1 024
    exists for `select`, which is not used here.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
