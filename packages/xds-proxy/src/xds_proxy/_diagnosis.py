"""Why the control plane cannot be reached, in words.

gRPC tells its own failures only as prose. So after a failure the same handshake is tried once with
the standard library, whose exceptions have types and codes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress

from xds_proxy._config import Address

# x509_vfy.h of OpenSSL
_NOT_YET_VALID, _EXPIRED = 9, 10
_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH = 62, 64
_UNTRUSTED = frozenset({2, 7, 18, 19, 20, 21, 27})


async def why_unreachable(
    address: Address, *, tls: ssl.SSLContext | None, server_name: str, roots: str, timeout_s: float
) -> str | None:
    """The reason that connecting fails, None if all goes well up to the end of the handshake."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(
                address.host,
                address.port,
                ssl=tls,
                server_hostname=server_name if tls else None,
            )
    except (OSError, TimeoutError) as error:
        return in_words(error, server_name=server_name, roots=roots, timeout_s=timeout_s)
    transport = writer.transport
    transport.abort()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await writer.wait_closed()
    return None


def in_words(  # noqa: PLR0911 - one return for each cause
    error: OSError | TimeoutError, *, server_name: str, roots: str, timeout_s: float
) -> str:
    """A connection error as part of a sentence. `roots` says where the roots come from."""
    match error:
        case ssl.SSLCertVerificationError():
            return _certificate_in_words(error, server_name=server_name, roots=roots)
        case ssl.SSLError():
            symbol = error.reason or "no reason given"
            return f"the TLS handshake failed ({symbol}): does it speak TLS on this port?"
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case ConnectionRefusedError():
            return "connection refused"
        case socket.gaierror():
            return f"its host name cannot be resolved ({error.strerror})"
        case ConnectionResetError() | ConnectionAbortedError():
            return "it closed the connection before an answer: does it speak TLS on this port?"
        case _:
            return error.strerror or str(error)


def _certificate_in_words(
    error: ssl.SSLCertVerificationError, *, server_name: str, roots: str
) -> str:
    code = error.verify_code
    if code in {_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH}:
        return f"name mismatch: its certificate is not for {server_name}"
    if code in _UNTRUSTED:
        return f"wrong root certificate: its certificate is not signed by {roots}"
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet: is this machine's clock right?"
    return f"its certificate cannot be verified ({error.verify_message})"
