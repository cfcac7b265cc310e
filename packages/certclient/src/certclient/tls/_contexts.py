"""TLS contexts that follow the rotation, for any program that takes an `ssl.SSLContext`.

A context passes each new connection to an inner context, which is built from the newest certificate
and roots. Reloading one context would not do: OpenSSL can add a root to a context, and never remove
one.
"""

import ssl
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, Self

from cryptography import x509

from certclient._errors import InvalidConfig
from certclient.feed._certificates import Certificates
from certclient.tls._authorization import (
    Anchors,
    Authorize,
    PeerRule,
    anchors,
    bundles_for,
    peer_rule,
)
from certclient.tls._context_settings import (
    ANSWERED_BY_INNER,
    REPEATED_CALLS,
    copy_settings,
    methods_to_refuse,
    refusal,
    refused_method,
)
from certclient.x509._certificate import Certificate
from mesh_identity import InvalidSpiffeId, SpiffeId, memory_file


def server_context(
    certificates: Certificates,
    authorize: Authorize | None = None,
    *,
    trust_domains: Collection[str] = (),
) -> ssl.SSLContext:
    """Make a server's context: it shows our certificate and requires one of each client.

    Accepts peers of our own trust domain, and of `trust_domains` if their roots are known. If
    `authorize` is given, it is called with the SPIFFE id of each of these and decides. Host names
    are not checked.
    What is set on the context applies to each new connection; a setting that can't raises
    InvalidConfig.
    For asyncio and libraries built on it: a blocking server that listens on a wrapped socket would
    keep the certificate that was the newest when it started.
    """
    rule = peer_rule(authorize, trust_domains)
    return _FollowingContext(ssl.PROTOCOL_TLS_SERVER, certificates, rule)


def client_context(
    certificates: Certificates,
    authorize: Authorize | None = None,
    *,
    trust_domains: Collection[str] = (),
) -> ssl.SSLContext:
    """Make a client's context: it shows our certificate and checks the server's SPIFFE id.

    The arguments are those of `server_context`.
    """
    rule = peer_rule(authorize, trust_domains)
    return _FollowingContext(ssl.PROTOCOL_TLS_CLIENT, certificates, rule)


class _OpenSslConnection(Protocol):
    """The part of the C object behind `ssl` that has no public method before Python 3.13."""

    def get_verified_chain(self) -> Sequence["_OpenSslCertificate"] | None: ...


class _OpenSslCertificate(Protocol):
    def public_bytes(self) -> str: ...


class _PeerChecked(ssl.SSLObject):
    """A connection that checks the peer's SPIFFE id in its handshake."""

    _sslobj: "_OpenSslConnection"

    def do_handshake(self) -> None:
        super().do_handshake()
        _check_peer(self.context, self.getpeercert(binary_form=True), self._sslobj)


class _PeerCheckedSocket(ssl.SSLSocket):
    """The same for a blocking socket."""

    _sslobj: "_OpenSslConnection"

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - ssl's signature
        super().do_handshake(block)
        _check_peer(self.context, self.getpeercert(binary_form=True), self._sslobj)


class _InnerContext(ssl.SSLContext):
    """The context of one certificate."""

    rule: PeerRule
    anchors: Anchors
    own_trust_domain: str
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
    """Makes connections that fail; used while there is no certificate."""

    sslobject_class = _Refused
    sslsocket_class = _RefusedSocket


def _no_certificate() -> ssl.SSLError:
    return ssl.SSLError(ssl.SSL_ERROR_SSL, "there is no valid workload certificate")


def _check_peer(context: ssl.SSLContext, der: bytes | None, connection: _OpenSslConnection) -> None:
    if not isinstance(context, _InnerContext):
        raise TypeError("a checked connection was made by a context without peer rules")
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
    reason = context.anchors.refusal(spiffe_id, _verified_chain(connection))
    reason = context.rule.refusal(spiffe_id, own_trust_domain=context.own_trust_domain) or reason
    if reason is not None:
        raise _refusal(reason)


def _verified_chain(connection: _OpenSslConnection) -> tuple[bytes, ...]:
    """Return the chain that OpenSSL verified, DER, leaf first and root last.

    `SSLObject.get_verified_chain` is public from Python 3.13 on; the method below it has existed
    since 3.10.
    """
    chain = connection.get_verified_chain() or ()
    return tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain)


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
    """Takes settings as any context does, and lets the newest inner context make connections."""

    def __new__(cls, protocol: int, certificates: Certificates, rule: PeerRule) -> Self:
        del certificates, rule
        return super().__new__(cls, protocol)

    def __init__(self, protocol: int, certificates: Certificates, rule: PeerRule) -> None:
        super().__init__()
        self._side = protocol
        self._certificates = certificates
        self._rule = rule
        self._calls: dict[str, tuple[object, ...]] = {}
        # One value, because threads may make connections at the same time.
        self._newest_inner: tuple[Certificate, _InnerContext] | None = None
        self.minimum_version = ssl.TLSVersion.TLSv1_2
        self.check_hostname = False
        self.verify_mode = ssl.CERT_REQUIRED
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            # Each connection is authorized by its whole chain, so none may resume a session.
            self.num_tickets = 0
            self.options |= ssl.OP_NO_TICKET

    def __setattr__(self, name: str, value: object) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
            return
        if (reason := refusal(self, name, value)) is not None:
            raise InvalidConfig(f"{name} can't be {value!r} on a context that follows: {reason}")
        differs = getattr(self, name, None) != value
        super().__setattr__(name, value)
        if differs:
            self._newest_inner = None

    def _newest(self) -> ssl.SSLContext:
        certificate = self._certificates.latest
        if certificate is None:
            refusing = _RefusingContext(self._side)
            refusing.check_hostname = False
            return refusing
        inner = self._newest_inner
        if inner is None or inner[0] is not certificate:
            inner = self._newest_inner = certificate, self._new_inner(certificate)
        return inner[1]

    def _new_inner(self, certificate: Certificate) -> "_InnerContext":
        bundles = bundles_for(certificate, self._rule)
        inner = _InnerContext(self._side)
        inner.rule = self._rule
        inner.anchors = anchors(bundles)
        inner.own_trust_domain = certificate.spiffe_id.trust_domain
        copy_settings(self, inner)
        for name, arguments in self._calls.items():
            getattr(inner, name)(*arguments)
        _load_trust(inner, b"".join(bundles.values()), certificate.crl_pem)
        _load_key_pair(inner, certificate)
        return inner


_OWN = frozenset({"_side", "_certificates", "_rule", "_calls", "_newest_inner"})


def _repeated_on_inner(name: str) -> Callable[..., None]:
    def call_both(self: _FollowingContext, *given: object, **named: object) -> None:
        # Copied, because an iterator may be used once only, and a list may change later.
        arguments = tuple(
            each if isinstance(each, str) or not isinstance(each, Iterable) else tuple(each)
            for each in (*given, *named.values())
        )
        getattr(ssl.SSLContext, name)(self, *arguments)  # raises for invalid arguments
        # httpcore and urllib3 set the same for each connection.
        if self._calls.get(name) != arguments:
            self._calls[name] = arguments
            self._newest_inner = None

    return call_both


def _answered_by_inner(name: str) -> Callable[..., object]:
    def call_inner(self: _FollowingContext, *arguments: object, **named: object) -> object:
        answer: object = getattr(self._newest(), name)(*arguments, **named)
        return answer

    return call_inner


for _name in REPEATED_CALLS:
    setattr(_FollowingContext, _name, _repeated_on_inner(_name))
for _name in ANSWERED_BY_INNER:
    setattr(_FollowingContext, _name, _answered_by_inner(_name))
for _name in methods_to_refuse():
    setattr(_FollowingContext, _name, refused_method(_name))


def _load_trust(context: ssl.SSLContext, roots_pem: bytes, crl_pem: bytes) -> None:
    """Trust the roots; check leaves against the revocation lists, if there are any."""
    with memory_file(roots_pem + crl_pem) as path:
        context.load_verify_locations(path)
    if crl_pem:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _load_key_pair(context: ssl.SSLContext, certificate: Certificate) -> None:
    with memory_file(certificate.private_key_pem + certificate.chain_pem) as path:
        context.load_cert_chain(path)
