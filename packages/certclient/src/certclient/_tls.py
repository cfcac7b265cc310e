"""TLS contexts that follow the rotation, for any program that takes an `ssl.SSLContext`.

A context hands each new connection to an inner context made of the newest certificate and roots.
Reloading one context would not do: OpenSSL can add a root to it, and never take one away.
"""

import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from cryptography import x509

from certclient._certificate import Certificate
from certclient._certificates import Certificates
from certclient._errors import InvalidSpiffeId
from certclient._spiffe import SpiffeId

Authorize = Callable[[SpiffeId], bool]


def server_context(certificates: Certificates, authorize: Authorize) -> ssl.SSLContext:
    """Make a server's context: shows our certificate, and wants one of each client.

    authorize: says whether a peer with this SPIFFE id may connect. Host names are not looked at.
    For asyncio and what builds on it; a blocking server that listens on a wrapped socket would
    keep the certificate of the moment it started.
    """
    return _FollowingContext(ssl.PROTOCOL_TLS_SERVER, certificates, authorize)


def client_context(certificates: Certificates, authorize: Authorize) -> ssl.SSLContext:
    """Make a client's context: shows our certificate, and checks the server by its SPIFFE id."""
    return _FollowingContext(ssl.PROTOCOL_TLS_CLIENT, certificates, authorize)


class _PeerChecked(ssl.SSLObject):
    """A connection whose handshake includes the question who the peer is."""

    def do_handshake(self) -> None:
        super().do_handshake()
        _check_peer(self.context, self.getpeercert(binary_form=True))


class _PeerCheckedSocket(ssl.SSLSocket):
    """The same for a blocking socket."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - ssl's signature
        super().do_handshake(block)
        _check_peer(self.context, self.getpeercert(binary_form=True))


class _InnerContext(ssl.SSLContext):
    """One certificate's context."""

    authorize: Authorize
    sslobject_class = _PeerChecked
    sslsocket_class = _PeerCheckedSocket


class _Refused(ssl.SSLObject):
    """A connection that fails in its handshake, where every user of `ssl` expects failures.

    asyncio leaks the socket when making the connection's object fails instead.
    """

    def do_handshake(self) -> None:
        raise _no_certificate()


class _RefusedSocket(ssl.SSLSocket):
    """The same for a blocking socket."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        raise _no_certificate()


class _RefusingContext(ssl.SSLContext):
    """What there is while there is no certificate."""

    sslobject_class = _Refused
    sslsocket_class = _RefusedSocket


def _no_certificate() -> ssl.SSLError:
    return ssl.SSLError(ssl.SSL_ERROR_SSL, "there is no valid workload certificate")


def _check_peer(context: ssl.SSLContext, der: bytes | None) -> None:
    if not isinstance(context, _InnerContext):
        raise TypeError("a checked connection was made by a context that checks nobody")
    try:
        spiffe_id = _spiffe_id(der or b"")
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise _refusal("the peer's certificate has no SPIFFE id") from error
    if not context.authorize(spiffe_id):
        raise _refusal(f"the peer is {spiffe_id}, which may not connect")


def _refusal(reason: str) -> ssl.SSLCertVerificationError:
    return ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, reason)


def _spiffe_id(der: bytes) -> SpiffeId:
    certificate = x509.load_der_x509_certificate(der)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise InvalidSpiffeId(f"{len(uris)} URIs, and there must be one")
    return SpiffeId.parse(uris[0])


class _FollowingContext(ssl.SSLContext):
    def __new__(cls, protocol: int, certificates: Certificates, authorize: Authorize) -> Self:
        del certificates, authorize
        return super().__new__(cls, protocol)

    def __init__(self, protocol: int, certificates: Certificates, authorize: Authorize) -> None:
        super().__init__()
        self._side = protocol
        self._certificates = certificates
        self._authorize = authorize
        self._alpn: tuple[str, ...] = ()
        self._made_of: Certificate | None = None
        self._inner: _InnerContext | None = None

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._alpn = tuple(alpn_protocols)
        self._inner = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - ssl's signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self._newest().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def wrap_socket(self, *args: object, **kwargs: object) -> ssl.SSLSocket:
        return self._newest().wrap_socket(*args, **kwargs)  # type: ignore[arg-type]

    def _newest(self) -> ssl.SSLContext:
        certificate = self._certificates.latest
        if certificate is None:
            refusing = _RefusingContext(self._side)
            refusing.check_hostname = False
            return refusing
        if self._inner is None or certificate is not self._made_of:
            inner = _InnerContext(self._side)
            inner.minimum_version = ssl.TLSVersion.TLSv1_2
            inner.check_hostname = False
            inner.verify_mode = ssl.CERT_REQUIRED
            inner.authorize = self._authorize
            _load_trust(inner, certificate)
            _load_key_pair(inner, certificate)
            if self._alpn:
                inner.set_alpn_protocols(self._alpn)
            self._inner, self._made_of = inner, certificate
        return self._inner


def _load_trust(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Trust the roots, and check leaves against the revocation lists if there are any."""
    with _in_memory(certificate.trust_bundle_pem + certificate.crl_pem) as path:
        context.load_verify_locations(path)
    if certificate.crl_pem:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _load_key_pair(context: ssl.SSLContext, certificate: Certificate) -> None:
    with _in_memory(certificate.private_key_pem + certificate.chain_pem) as path:
        context.load_cert_chain(path)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Give content a path. `ssl` reads from files only: this one never touches a disk."""
    descriptor = os.memfd_create("workload certificate")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
