"""Who is calling: the credentials of a call, and what turns them into identities."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from cryptography import x509

from mesh_ca._errors import IdentityError, NotAuthenticated
from mesh_ca._identity import trust_domain_of
from mesh_ca._profile import CLOCK_SKEW
from mesh_ca._self_renewal import ShownCertificate, shown_certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a call brings along to show who makes it."""

    metadata: Mapping[str, str] = field(repr=False)  # lower-case keys; holds tokens
    encrypted: bool
    certificate_chain: tuple[bytes, ...] = ()
    """DER, leaf first, already verified by the TLS layer; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom a call has proved to come from, and by which method."""

    identities: tuple[str, ...]
    method: str
    shown: ShownCertificate | None = None
    """The certificate of this authority's that was the only proof; None: there was another."""


class Authenticator(Protocol):
    """One way to tell who calls."""

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Who calls; raises NotAuthenticated with a reason for the log, and what of it is told."""
        ...


class ClientCertificateAuthenticator:
    """Takes the names of the client certificate that the TLS layer has verified."""

    def __init__(
        self,
        *,
        is_revoked: Callable[[x509.Certificate], bool] = lambda _leaf: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Refuse certificates that are revoked; `clock` tells the Unix time.

        A connection may outlive the certificate it began with.
        """
        self._is_revoked = is_revoked
        self._clock = clock

    async def authenticate(self, credentials: Credentials) -> Caller:
        """The URI and DNS names of the leaf; of URIs one at most, and that a SPIFFE id."""
        if not credentials.certificate_chain:
            raise NotAuthenticated.openly("no client certificate")
        leaf = _readable(credentials.certificate_chain[0])
        identities = _certified_names(leaf, datetime.fromtimestamp(self._clock(), UTC))
        if self._is_revoked(leaf):
            raise NotAuthenticated(
                f"client certificate {leaf.serial_number:x} is revoked",
                told="client certificate is revoked",
            )
        return Caller(
            identities=identities,
            method="client certificate",
            shown=shown_certificate(leaf, skew=CLOCK_SKEW),
        )


class FirstOf:
    """Tries authenticators in order; the first that knows the caller decides."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """Try `authenticators` in this order."""
        self._authenticators = tuple(authenticators)

    async def authenticate(self, credentials: Credentials) -> Caller:
        """What the first one says that does not raise NotAuthenticated; else all their reasons."""
        reasons, told = [], []
        for authenticator in self._authenticators:
            try:
                return await authenticator.authenticate(credentials)
            except NotAuthenticated as error:
                reasons.append(str(error))
                told.append(error.told)
        raise NotAuthenticated(
            "; ".join(reasons) or "no way to authenticate is configured",
            told="; ".join(filter(None, told)),
        )


def _readable(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise NotAuthenticated.openly("client certificate without readable contents") from error


def _certified_names(leaf: x509.Certificate, now: datetime) -> tuple[str, ...]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise NotAuthenticated.openly(
            "client certificate without readable alternative names"
        ) from error
    if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        raise NotAuthenticated.openly("client certificate is not valid now")
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) > 1:  # X509-SVID section 2: exactly one
        raise NotAuthenticated.openly(
            f"client certificate with {len(uris)} URI names, one is allowed"
        )
    try:
        for uri in uris:
            if trust_domain_of(uri) is None:
                raise NotAuthenticated.openly(
                    "client certificate with a URI name that is no SPIFFE id"
                )
    except IdentityError as error:
        raise NotAuthenticated(f"client certificate: {error}") from error
    identities = (*uris, *names.get_values_for_type(x509.DNSName))
    if not identities:
        raise NotAuthenticated.openly("client certificate has no URI or DNS name")
    return identities
