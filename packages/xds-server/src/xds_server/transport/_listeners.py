"""Where to listen: plain TCP, TLS, or a Unix socket."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from mesh_lifecycle import check_fields
from mesh_listening import GRPC_LIMITS, UNIX_LIMITS, AllowedPeers, ConnectionLimits, Port


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainListener:
    """TCP without encryption. Port 0 takes a free one; see `Bound.addresses`.

    An empty host is every address of this machine. `limits` are the number of connections, and how
    long one may do nothing.
    """

    host: str = "127.0.0.1"
    port: int = 0
    limits: ConnectionLimits = GRPC_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsListener:
    """TCP with TLS; a client certificate is asked for, checked if shown, and not required.

    `context` is called for each new handshake, so that a renewed certificate is served at once.
    The context it returns has the server's certificate and, to accept client certificates,
    `verify_mode = CERT_OPTIONAL` and their roots; `server_context` makes a good one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    context: Callable[[], ssl.SSLContext] = field(repr=False)
    limits: ConnectionLimits = GRPC_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixListener:
    """A Unix socket. Its directory is created with mode 0700 if it is not there.

    `allow` chooses the processes that are served, of those that `mode` lets connect; None: all.
    `listening` is a socket that listens there already: the caller closes it, and `mode` is
    not looked at.
    """

    path: Path
    mode: int = 0o600
    allow: AllowedPeers | None = None
    limits: ConnectionLimits = UNIX_LIMITS
    listening: socket.socket | None = None

    def __post_init__(self) -> None:
        check_fields(self)


Listener: TypeAlias = PlainListener | TlsListener | UnixListener


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners that were opened: an address each, such as `127.0.0.1:15010`, `unix:/path`.

    `ports` count their connections, those refused too.
    """

    addresses: tuple[str, ...]
    ports: tuple[Port, ...] = ()


def server_context(
    *, certificate_chain: Path, private_key: Path, client_roots: bytes | None = None
) -> ssl.SSLContext:
    """A context for a `TlsListener`: TLS 1.2 or newer, HTTP/2.

    `certificate_chain` and `private_key` are PEM files; `client_roots` is PEM, and with it client
    certificates are verified when shown.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(certificate_chain, private_key)
    if client_roots is not None:
        context.load_verify_locations(cadata=client_roots.decode("ascii"))
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
