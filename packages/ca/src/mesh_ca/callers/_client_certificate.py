"""Authenticates callers by the client certificate of their TLS connection."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from cryptography import x509

from mesh_ca._errors import IdentityError, NotAuthenticated
from mesh_ca.authority._identity import trust_domain_of
from mesh_ca.authority._profile import CLOCK_SKEW
from mesh_ca.callers._authenticator import Caller, Credentials
from mesh_ca.callers._self_renewal import shown_certificate


class ClientCertificateAuthenticator:
    """Authenticates callers as the names of their client certificate, verified by the TLS layer."""

    def __init__(
        self,
        *,
        is_revoked: Callable[[x509.Certificate], bool] = lambda _leaf: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Refuse revoked certificates, and expired ones: a connection may outlive its certificate.

        `clock` returns the Unix time.
        """
        self._is_revoked = is_revoked
        self._clock = clock

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Return the URI and DNS names of the leaf; it may have one URI, which is a SPIFFE id."""
        if not credentials.certificate_chain:
            raise NotAuthenticated.public("no client certificate")
        leaf = _readable(credentials.certificate_chain[0])
        identities = _certified_names(leaf, datetime.fromtimestamp(self._clock(), UTC))
        if self._is_revoked(leaf):
            raise NotAuthenticated(
                f"client certificate {leaf.serial_number:x} is revoked",
                public_reason="client certificate is revoked",
            )
        return Caller(
            identities=identities,
            method="client certificate",
            shown=shown_certificate(leaf, skew=CLOCK_SKEW),
        )


def _readable(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise NotAuthenticated.public("client certificate without readable contents") from error


def _certified_names(leaf: x509.Certificate, now: datetime) -> tuple[str, ...]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise NotAuthenticated.public(
            "client certificate without readable alternative names"
        ) from error
    if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        raise NotAuthenticated.public("client certificate is not valid now")
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) > 1:  # X509-SVID section 2: exactly one
        raise NotAuthenticated.public(
            f"client certificate with {len(uris)} URI names, one is allowed"
        )
    try:
        for uri in uris:
            if trust_domain_of(uri) is None:
                raise NotAuthenticated.public(
                    "client certificate with a URI name that is no SPIFFE id"
                )
    except IdentityError as error:
        raise NotAuthenticated(f"client certificate: {error}") from error
    identities = (*uris, *names.get_values_for_type(x509.DNSName))
    if not identities:
        raise NotAuthenticated.public("client certificate has no URI or DNS name")
    return identities
