"""What may be set on a TLS context that follows a rotation: it holds on every connection, or is
refused.

Connections are made by inner contexts, one for each certificate, so a setting must be carried over
to these. What would take the check of the peer away, or bring in a certificate or a root from
elsewhere, is refused, and so is whatever a later Python adds and nobody has thought about here.
"""

import ssl
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from certclient._errors import InvalidConfig

CARRIED_CALLS = frozenset({"set_alpn_protocols", "set_ciphers", "set_ecdh_curve"})
"""Methods whose last call is made again on each inner context."""

ASKED_OF_INNER = frozenset({"cert_store_stats", "get_ca_certs", "session_stats"})
"""Methods that tell what only the inner context knows."""

REFUSED_CALLS: Mapping[str, str] = {
    "load_cert_chain": "the certificate comes from the source that the context follows",
    "load_default_certs": "the roots come with the workload certificate; with_trust adds others",
    "load_verify_locations": "the roots come with the workload certificate; with_trust adds others",
    "set_default_verify_paths": (
        "the roots come with the workload certificate; with_trust adds others"
    ),
    "load_dh_params": "only elliptic curves are used for key exchange",
    "set_npn_protocols": "NPN has gone from TLS; set_alpn_protocols is in its place",
    "set_psk_client_callback": "with a shared key no certificate would be asked for",
    "set_psk_server_callback": "with a shared key no certificate would be asked for",
}

_CARRIED = (
    # verify_mode first: check_hostname wants it
    "verify_mode",
    "check_hostname",
    "_host_flags",  # what hostname_checks_common_name sets
    "maximum_version",
    "minimum_version",
    "verify_flags",
    "post_handshake_auth",
    "keylog_filename",
)
_SET_BY_NAME = frozenset({*_CARRIED, "hostname_checks_common_name", "num_tickets", "options"})
_KNOWN_METHODS = frozenset(
    {"get_ciphers", "set_servername_callback", "wrap_bio", "wrap_socket"}
    | CARRIED_CALLS
    | ASKED_OF_INNER
)


def refusal(context: ssl.SSLContext, name: str, value: Any) -> str | None:  # noqa: PLR0911
    """Why this attribute may not have this value, as a sentence; None if it may."""
    server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    match name:
        case "verify_mode" if value != ssl.CERT_REQUIRED:
            return "each peer must show a certificate: CERT_REQUIRED is the only choice"
        case "minimum_version" | "maximum_version" if not _is_modern(value):
            return "TLS 1.2 is the oldest version that is spoken: TLSv1_2 and TLSv1_3 can be set"
        case "check_hostname" if server and value:
            return "a client has no host name: say who may connect by its SPIFFE id"
        case "post_handshake_auth" if server and value:
            return "a client shows its certificate in the handshake, where it is checked"
        case "num_tickets" if value:
            return "each connection is checked in full: sessions are not resumed"
        case "options" if server and not value & ssl.OP_NO_TICKET:
            return "each connection is checked in full: OP_NO_TICKET must stay"
        case "sni_callback" if value is not None:
            return "there is one certificate, the workload's, and none to choose by name"
        case "sslobject_class" | "sslsocket_class":
            return "these classes check the peer"
        case "_msg_callback" if value is not None:
            return "it is ssl's own, for debugging"
        case "sni_callback" | "_msg_callback":
            return None
        case _ if name not in _SET_BY_NAME:
            return "it is not known here, so it would not hold on the connections made"
        case _:
            return None


def _is_modern(version: int) -> bool:
    return version in {
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
        ssl.TLSVersion.MAXIMUM_SUPPORTED,
    }


def carry_over(outer: ssl.SSLContext, inner: ssl.SSLContext) -> None:
    """Set on an inner context all that is set on the outer one."""
    for name in _CARRIED:
        value = getattr(outer, name)
        if getattr(inner, name) != value:
            setattr(inner, name, value)
    if outer.protocol == ssl.PROTOCOL_TLS_SERVER:
        inner.num_tickets = 0
    if inner.options != outer.options:
        with warnings.catch_warnings():
            # Whoever set an old option has been told once; it is the same one.
            warnings.simplefilter("ignore", DeprecationWarning)
            inner.options = outer.options


def refused_method(name: str) -> Callable[..., None]:
    """A method that raises InvalidConfig with the reason."""
    why = REFUSED_CALLS.get(name, "it is not known here, so it would not hold on the connections")

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        del self, args, kwargs
        raise InvalidConfig(f"{name} can't be used on a context that follows a rotation: {why}")

    return refuse


def methods_to_refuse() -> tuple[str, ...]:
    """All of this Python's that are not known to hold, whatever their names."""
    return tuple(
        name
        for name in dir(ssl.SSLContext)
        if not name.startswith("_")
        and name not in _KNOWN_METHODS
        and callable(getattr(ssl.SSLContext, name))
        and not isinstance(getattr(ssl.SSLContext, name), type)
    )
