"""The filter chains of a redirected inbound port: which first bytes lead where.

TLS of the mesh is distinguished from the application's own by the ALPN protocols that the client
offers, and requests from other connections by theirs, or by the first bytes of plaintext.
"""

from enum import Enum, auto
from typing import NamedTuple

from istio_config.kinds.peer_authentication import MutualTlsMode
from istio_config.kinds.protocol import Protocol

MESH_HTTP = ("istio-http/1.0", "istio-http/1.1", "istio-h2")
"""ALPN protocols of mutual TLS that carries requests."""

MESH_TCP = ("istio-peer-exchange", "istio")
"""ALPN protocols of mutual TLS that may carry anything."""

PLAIN_HTTP = ("http/1.1", "h2c")
"""The protocols that requests in plaintext are found to be by their first bytes."""

TLS, PLAIN = "tls", "raw_buffer"


class Traffic(Enum):
    """The kinds of connections that a port may have."""

    HTTP = auto()
    TCP = auto()
    AUTO = auto()


class ChainKind(NamedTuple):
    """One chain: the connections that it takes, and what is done with them."""

    transport: str
    alpn: tuple[str, ...] = ()
    """Empty: whatever is offered."""
    is_http: bool = False
    ends_tls: bool = False
    """Whether the proxy is the TLS server; else the application sees the bytes as they are."""


_MESH = (*MESH_HTTP, *MESH_TCP)
_HTTP_OF_MESH = ChainKind(TLS, MESH_HTTP, is_http=True, ends_tls=True)
_ANY_TLS = ChainKind(TLS, ends_tls=True)
_OWN_TLS = ChainKind(TLS)
_PLAIN = ChainKind(PLAIN)
_PLAIN_HTTP = ChainKind(PLAIN, is_http=True)
_DETECTED_HTTP = ChainKind(PLAIN, PLAIN_HTTP, is_http=True)

_STRICT, _PERMISSIVE = MutualTlsMode.STRICT, MutualTlsMode.PERMISSIVE
_DISABLE = MutualTlsMode.DISABLE

_KINDS = {
    (Traffic.HTTP, _STRICT): (ChainKind(TLS, is_http=True, ends_tls=True),),
    (Traffic.HTTP, _PERMISSIVE): (
        ChainKind(TLS, _MESH, is_http=True, ends_tls=True),
        _PLAIN_HTTP,
    ),
    (Traffic.HTTP, _DISABLE): (_PLAIN_HTTP,),
    (Traffic.TCP, _STRICT): (_ANY_TLS,),
    (Traffic.TCP, _PERMISSIVE): (ChainKind(TLS, _MESH, ends_tls=True), _OWN_TLS, _PLAIN),
    (Traffic.TCP, _DISABLE): (_PLAIN,),
    (Traffic.AUTO, _STRICT): (_HTTP_OF_MESH, _ANY_TLS),
    (Traffic.AUTO, _PERMISSIVE): (
        _HTTP_OF_MESH,
        _DETECTED_HTTP,
        ChainKind(TLS, MESH_TCP, ends_tls=True),
        _PLAIN,
        _OWN_TLS,
    ),
    (Traffic.AUTO, _DISABLE): (_DETECTED_HTTP, _PLAIN),
}


def traffic_of(protocol: Protocol) -> Traffic:
    """Return what a port of a protocol carries."""
    if protocol.is_http:
        return Traffic.HTTP
    return Traffic.AUTO if protocol is Protocol.AUTO else Traffic.TCP


def chain_kinds(traffic: Traffic, mode: MutualTlsMode) -> tuple[ChainKind, ...]:
    """Return the chains of a port; of those that take a connection, the one that says most."""
    return _KINDS[traffic, mode]


def needs_tls_inspector(kinds: tuple[ChainKind, ...]) -> bool:
    """Return whether connections have to be looked at for TLS.

    Without that, all of them count as plaintext: an application's own TLS reaches it.
    """
    return any(each.transport == TLS for each in kinds)


def needs_http_inspector(kinds: tuple[ChainKind, ...]) -> bool:
    """Return whether plaintext has to be looked at for requests."""
    return any(each.alpn == PLAIN_HTTP for each in kinds)
