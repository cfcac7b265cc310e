"""Finds out why a control plane can't be reached.

gRPC describes its failures only as prose. So after a failure the same handshake is tried once with
the standard library, whose exceptions have types and codes. Nothing is sent on that connection: no
token, no client certificate. A certificate that was not verified is read only to describe it in the
message.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, Protocol

from mesh_identity._addresses import HostNotResolved, fetch_addresses
from mesh_identity._presented import Validity, described_issuer, described_roots, validity_of
from mesh_identity._roots_context import roots_context
from mesh_identity._words import listed

# x509_vfy.h of OpenSSL
_NOT_YET_VALID, _EXPIRED = 9, 10
_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH = 62, 64
_UNTRUSTED = frozenset({2, 7, 18, 19, 20, 21, 27})


_Failure = OSError | TimeoutError | HostNotResolved


class TrustedRoots(NamedTuple):
    """The roots that a server is verified by.

    described: where they come from, as "a root in FILE".
    remedy: what to do if the server's root is another one, as "put the new one into FILE".
    own: whether the roots are the operator's own, and few enough to be listed.
    """

    roots_pem: bytes
    described: str
    remedy: str = ""
    own: bool = True


class ExpectedName(NamedTuple):
    """The name that a server's certificate must have, and the setting for it."""

    name: str
    setting: str = "server_name"


class Fault(StrEnum):
    """The kinds of reasons why a server can't be reached."""

    UNRESOLVED = "unresolved"
    """its host name has no address"""
    REFUSED = "refused"
    SILENT = "silent"
    """no answer in time, as from an address that drops packets"""
    NO_TLS = "no_tls"
    """it does not speak TLS, or not a version of it that is accepted"""
    WRONG_ROOT = "wrong_root"
    WRONG_NAME = "wrong_name"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    UNVERIFIED = "unverified"
    """its certificate can't be verified for another reason"""
    OTHER = "other"


class Unreachable(NamedTuple):
    """Why a server can't be reached: the kind of reason, and the reason in words.

    validity: from when to when the server's certificate is valid, where that is the reason.
    """

    fault: Fault
    reason: str
    validity: Validity | None = None


async def why_unreachable(
    host: str,
    port: int,
    *,
    trusted: TrustedRoots | None,
    expected: ExpectedName,
    timeout_s: float,
) -> str | None:
    """Return in words what `find_fault` finds."""
    found = await find_fault(host, port, trusted=trusted, expected=expected, timeout_s=timeout_s)
    return None if found is None else found.reason


async def find_fault(
    host: str,
    port: int,
    *,
    trusted: TrustedRoots | None,
    expected: ExpectedName,
    timeout_s: float,
) -> Unreachable | None:
    """Return why connecting fails; None if it succeeds up to the end of the handshake.

    trusted: None for a server without TLS. Raises ValueError if it has no PEM certificate.
    """
    probe = _Probe(host, port, timeout_s=timeout_s)
    tls = _context(trusted) if trusted is not None else None
    error = await probe.failure(tls, expected.name)
    match error:
        case None:
            return None
        case ssl.SSLCertVerificationError() if trusted is not None:
            fault = _certificate_fault(error)
            reason = await _certificate_in_words(error, fault, probe, trusted, expected)
            validity = None
            if fault in {Fault.EXPIRED, Fault.NOT_YET_VALID}:
                validity = validity_of(await _presented_chain(probe, expected))
            return Unreachable(fault, reason, validity)
        case _:
            return Unreachable(_connection_fault(error), in_words(error, timeout_s=timeout_s))


class _TlsConnection(Protocol):
    """The part of `ssl.SSLObject` that is used here."""

    _sslobj: "_OpenSslConnection"

    def getpeercert(self) -> Mapping[str, Sequence[tuple[str, str]]] | None: ...


class _OpenSslConnection(Protocol):
    """The part of the C object behind `ssl` that has no public method before Python 3.13."""

    def get_unverified_chain(self) -> Sequence["_OpenSslCertificate"] | None: ...


class _OpenSslCertificate(Protocol):
    def public_bytes(self) -> str: ...


class _Probe:
    """Connects, does the TLS handshake and disconnects."""

    def __init__(self, host: str, port: int, *, timeout_s: float) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self.names: tuple[str, ...] = ()
        self.unverified_chain: tuple[bytes, ...] = ()

    async def failure(self, tls: ssl.SSLContext | None, name: str) -> _Failure | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                writer = await self._connect(tls, name)
        except (OSError, TimeoutError, HostNotResolved) as error:
            return error
        if tls is not None:
            self._read_certificates(writer.get_extra_info("ssl_object"), tls)
        writer.transport.abort()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                await writer.wait_closed()
        return None

    def _read_certificates(self, connection: _TlsConnection, tls: ssl.SSLContext) -> None:
        """Keep the names of a certificate that was verified, or else the chain, PEM."""
        if tls.verify_mode is not ssl.CERT_NONE:
            certificate = connection.getpeercert() or {}
            self.names = tuple(name for _, name in certificate.get("subjectAltName", ()))
            return
        # Public as `get_unverified_chain` from Python 3.13 on; this has existed since 3.10.
        chain = connection._sslobj.get_unverified_chain() or ()
        self.unverified_chain = tuple(each.public_bytes().encode() for each in chain)

    async def _connect(self, tls: ssl.SSLContext | None, name: str) -> asyncio.StreamWriter:
        """Connect to the first of the host's addresses that answers.

        One by one: asyncio makes one error of several that has neither type nor code.
        """
        refused: OSError = ConnectionRefusedError()
        for address in await fetch_addresses(self._host, timeout_s=self._timeout_s):
            try:
                _, writer = await asyncio.open_connection(
                    address, self._port, ssl=tls, server_hostname=name if tls else None
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                refused = error
            else:
                return writer
        raise refused


def _context(trusted: TrustedRoots) -> ssl.SSLContext:
    """Return a context with the roots; only after a failure, because it takes a megabyte."""
    tls = roots_context(trusted.roots_pem)
    tls.set_alpn_protocols(["h2"])
    return tls


def _connection_fault(error: _Failure) -> Fault:
    match error:
        case ssl.SSLError() | ConnectionResetError() | ConnectionAbortedError():
            return Fault.NO_TLS
        case TimeoutError():
            return Fault.SILENT
        case ConnectionRefusedError():
            return Fault.REFUSED
        case HostNotResolved():
            return Fault.UNRESOLVED
        case _:
            return Fault.OTHER


def _certificate_fault(error: ssl.SSLCertVerificationError) -> Fault:
    code = error.verify_code
    if code in {_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH}:
        return Fault.WRONG_NAME
    if code in _UNTRUSTED:
        return Fault.WRONG_ROOT
    return {_EXPIRED: Fault.EXPIRED, _NOT_YET_VALID: Fault.NOT_YET_VALID}.get(
        code, Fault.UNVERIFIED
    )


def in_words(error: _Failure, *, timeout_s: float) -> str:
    """Return a connection error as part of a sentence."""
    match error:
        case ssl.SSLError():
            symbol = error.reason or "no reason given"
            return f"the TLS handshake failed ({symbol}): does it speak TLS on this port?"
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case ConnectionRefusedError():
            return "connection refused"
        case HostNotResolved():
            return str(error)
        case ConnectionResetError() | ConnectionAbortedError():
            return "it closed the connection before an answer: does it speak TLS on this port?"
        case _:
            return error.strerror or str(error)


async def _certificate_in_words(
    error: ssl.SSLCertVerificationError,
    fault: Fault,
    probe: _Probe,
    trusted: TrustedRoots,
    expected: ExpectedName,
) -> str:
    match fault:
        case Fault.WRONG_NAME:
            return await _name_in_words(probe, trusted, expected)
        case Fault.WRONG_ROOT:
            return await _root_in_words(probe, trusted, expected)
        case Fault.EXPIRED:
            return "its certificate has expired"
        case Fault.NOT_YET_VALID:
            return "its certificate is not valid yet: is this machine's clock right?"
        case _:
            return f"its certificate cannot be verified ({error.verify_message})"


async def _name_in_words(probe: _Probe, trusted: TrustedRoots, expected: ExpectedName) -> str:
    """Return the message with the names of the certificate, which is verified but for its name."""
    tls = _context(trusted)
    tls.check_hostname = False
    said = f"name mismatch: its certificate is not for {expected.name}"
    if await probe.failure(tls, expected.name) is None:
        said += f", it is for {listed(probe.names, none='no name')}"
    return f"{said}; {expected.setting} sets the name that is expected"


async def _root_in_words(probe: _Probe, trusted: TrustedRoots, expected: ExpectedName) -> str:
    said = f"wrong root certificate: its certificate is not signed by {trusted.described}"
    if not trusted.own:
        return said
    chain = await _presented_chain(probe, expected)
    issuer = described_issuer(chain) if chain else ""
    known = described_roots(trusted.roots_pem)
    if issuer and known:
        said += f"; it is issued by {issuer}, and trusted is {known}"
    if trusted.remedy:
        said += (
            "; if the mesh's root was replaced while this workload was away, or its trust was not "
            f"updated, {trusted.remedy}"
        )
    return said


async def _presented_chain(probe: _Probe, expected: ExpectedName) -> tuple[bytes, ...]:
    """Return the chain that the server presents, PEM, not verified; empty if there is none."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE  # to describe the chain, see the module's docstring
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.set_alpn_protocols(["h2"])
    if await probe.failure(tls, expected.name) is not None:
        return ()
    return probe.unverified_chain
