"""Checks a certificate by a TLS handshake with itself, in memory, as server and as client.

Whether peers accept a chain is best decided by a TLS library. OpenSSL is used, which decides as the
BoringSSL of Envoy and gRPC does. It finds the path, and checks signatures, path lengths, name
constraints of all kinds, policies, and purposes, also those that intermediates are limited to.
`docs/decisions/0010-trial-handshake.md` says why not cryptography's verifier.
"""

import ssl
from typing import NoReturn

from certclient._errors import CertificateRejected
from mesh_identity import memory_file

_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME: the caller checks the times, by its own clock."""
_PARTIAL_CHAIN = 0x80000
"""X509_V_FLAG_PARTIAL_CHAIN: a trusted certificate ends the path even if it is not self-signed, as
in Envoy."""
_POLICY_CHECK = 0x80
"""X509_V_FLAG_POLICY_CHECK: by default BoringSSL refuses a path without the policies that it
requires, and OpenSSL does not."""
_MAX_FLIGHTS = 10


def check_handshake(*, private_key_pem: bytes, chain_pem: bytes, roots_pem: bytes) -> None:
    """Raise CertificateRejected with the reason if either side refuses the other's certificate.

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
    # Each side checks the other: the client checks the certificate as a server's.
    for _ in range(_MAX_FLIGHTS):
        for checked, checker in tuple(sides.items()):
            try:
                checker.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                _refuse(checked, error)
            del sides[checked]
        if not sides:
            return
    raise CertificateRejected("a TLS handshake with it does not finish")


def _context(protocol: int, key_pair: str, roots_pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= _NO_CHECK_TIME | _PARTIAL_CHAIN | _POLICY_CHECK
    context.load_verify_locations(cadata=roots_pem.decode("ascii"))
    context.load_cert_chain(key_pair)
    return context


def _refuse(checked: str, error: ssl.SSLError) -> NoReturn:
    raise CertificateRejected(
        f"TLS peers would refuse it as a {checked}: {_reason(error)}"
    ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return reason.replace("_", " ").lower() if reason else type(error).__name__
