"""A TLS handshake of a certificate with itself, in memory, as server and as client at once.

Whether peers take a path is for a TLS library to say, so one is asked: OpenSSL, which judges like
the BoringSSL of Envoy and gRPC. It finds the path, checks signatures, path lengths, name
constraints of all kinds, policies, and purposes (those that intermediates are limited to as well).
`docs/decisions/0010-trial-handshake.md` says why not cryptography's verifier.
"""

import ssl
from typing import NoReturn

from certclient._errors import CertificateRejected
from certclient.x509._memory_file import memory_file

_NO_CHECK_TIME = 0x200000
"""The clock is the caller's, which OpenSSL would not ask: it looks at the times itself."""
_PARTIAL_CHAIN = 0x80000
"""A trusted certificate ends the path, whether or not it is self-signed, as in Envoy."""
_POLICY_CHECK = 0x80
"""A path that requires policies and has none fails with BoringSSL, and is let pass by OpenSSL."""
_MAX_FLIGHTS = 10


def check_handshake(*, private_key_pem: bytes, chain_pem: bytes, roots_pem: bytes) -> None:
    """Shake hands; raises CertificateRejected with what one side has against the other.

    chain_pem: leaf first. Takes about as long as four signatures with the key.
    """
    try:
        with memory_file(private_key_pem + chain_pem) as key_pair:
            server = _context(ssl.PROTOCOL_TLS_SERVER, key_pair, roots_pem)
            client = _context(ssl.PROTOCOL_TLS_CLIENT, key_pair, roots_pem)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateRejected(f"OpenSSL cannot use it for TLS: {_reason(error)}") from error
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = {
        "server": client.wrap_bio(to_client, to_server),
        "client": server.wrap_bio(to_server, to_client, server_side=True),
    }
    # Each side is the judge of the other: the client says whether it is good for a server.
    for _ in range(_MAX_FLIGHTS):
        for judged, judge in tuple(sides.items()):
            try:
                judge.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                _refuse(judged, error)
            del sides[judged]
        if not sides:
            return
    raise CertificateRejected("a TLS handshake with it comes to no end")


def _context(protocol: int, key_pair: str, roots_pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= _NO_CHECK_TIME | _PARTIAL_CHAIN | _POLICY_CHECK
    context.load_verify_locations(cadata=roots_pem.decode("ascii"))
    context.load_cert_chain(key_pair)
    return context


def _refuse(judged: str, error: ssl.SSLError) -> NoReturn:
    raise CertificateRejected(
        f"TLS peers would refuse it as a {judged}: {_reason(error)}"
    ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return reason.replace("_", " ").lower() if reason else type(error).__name__
