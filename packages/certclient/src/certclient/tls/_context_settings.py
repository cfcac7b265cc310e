"""Which settings a TLS context that follows a rotation accepts.

Inner contexts, one for each certificate, make the connections, so a setting must be copied to each
of them. A setting is refused if it would disable the check of the peer, or add a certificate or a
root from elsewhere. So are settings that a later Python adds and this module does not know.
"""

import ssl
import warnings
from collections.abc import Callable, Mapping

from certclient._errors import InvalidConfig

REPEATED_CALLS = frozenset({"set_alpn_protocols", "set_ciphers", "set_ecdh_curve"})
"""Methods whose last call is repeated on each inner context."""

ANSWERED_BY_INNER = frozenset(
    {"cert_store_stats", "get_ca_certs", "session_stats", "wrap_bio", "wrap_socket"}
)
"""Methods that are answered by the inner context."""

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

_COPIED = (
    # verify_mode first, because check_hostname depends on it
    "verify_mode",
    "check_hostname",
    "_host_flags",  # what hostname_checks_common_name sets
    "maximum_version",
    "minimum_version",
    "verify_flags",
    "post_handshake_auth",
    "keylog_filename",
)
_SET_BY_NAME = frozenset({*_COPIED, "hostname_checks_common_name", "num_tickets", "options"})
_KNOWN_METHODS = frozenset(
    {"get_ciphers", "set_servername_callback"} | REPEATED_CALLS | ANSWERED_BY_INNER
)


def refusal(context: ssl.SSLContext, name: str, value: object) -> str | None:  # noqa: PLR0911
    """Return why this attribute may not have this value; None if it may."""
    server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    match name:
        case "verify_mode" if value != ssl.CERT_REQUIRED:
            return "each peer must show a certificate: CERT_REQUIRED is the only choice"
        case "minimum_version" | "maximum_version" if not _is_modern(value):
            return "TLS 1.2 is the oldest version that is spoken: TLSv1_2 and TLSv1_3 can be set"
        case "check_hostname" if server and value:
            return "a client has no host name: authorize it by its SPIFFE id"
        case "post_handshake_auth" if server and value:
            return "a client shows its certificate in the handshake, where it is checked"
        case "num_tickets" if value:
            return "each connection is checked in full: sessions are not resumed"
        case "options" if server and not _has_no_ticket(value):
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
            return "this setting is not known here, so it would not apply to the connections"
        case _:
            return None


def _has_no_ticket(options: object) -> bool:
    return isinstance(options, int) and bool(options & ssl.OP_NO_TICKET)


def _is_modern(version: object) -> bool:
    return version in {
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
        ssl.TLSVersion.MAXIMUM_SUPPORTED,
    }


def copy_settings(outer: ssl.SSLContext, inner: ssl.SSLContext) -> None:
    """Copy all settings of the outer context to an inner one."""
    for name in _COPIED:
        value = getattr(outer, name)
        if getattr(inner, name) != value:
            setattr(inner, name, value)
    if outer.protocol == ssl.PROTOCOL_TLS_SERVER:
        inner.num_tickets = 0
    if inner.options != outer.options:
        with warnings.catch_warnings():
            # The program was warned of a deprecated option when it set the outer context's.
            warnings.simplefilter("ignore", DeprecationWarning)
            inner.options = outer.options


def refused_method(name: str) -> Callable[..., None]:
    """Return a method that raises InvalidConfig with the reason."""
    why = REFUSED_CALLS.get(
        name, "this method is not known here, so it would not apply to the connections"
    )

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        del self, args, kwargs
        raise InvalidConfig(f"{name} can't be used on a context that follows a rotation: {why}")

    return refuse


def methods_to_refuse() -> tuple[str, ...]:
    """Return the methods of this Python's SSLContext that this module does not know."""
    return tuple(
        name
        for name in dir(ssl.SSLContext)
        if not name.startswith("_")
        and name not in _KNOWN_METHODS
        and callable(getattr(ssl.SSLContext, name))
        and not isinstance(getattr(ssl.SSLContext, name), type)
    )
