"""The authority: certifies a public key for given identities, with the signer in use."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mesh_ca._errors import CsrError, LifetimeError, NotReadyError
from mesh_ca.authority._csr import parse_csr
from mesh_ca.authority._identity import alternative_names, checked_trust_domain
from mesh_ca.authority._keys import EncodedKey, KeyType, key_pem, new_key
from mesh_ca.authority._profile import CLOCK_SKEW, Leaf, signed_leaf, whole_second
from mesh_ca.authority._serial_number import serial_number
from mesh_ca.authority._signer import Signer

DEFAULT_LIFETIME = timedelta(hours=24)
KEY_REVOKED = "the key of the certificate request is revoked, make another key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate this authority has just signed."""

    chain_pem: tuple[bytes, ...]
    """Leaf first, root last. The last element is the whole trust bundle: while a root is being
    replaced it holds more than one certificate."""
    serial: int
    not_before: datetime
    not_after: datetime
    identities: tuple[str, ...]
    public_key_sha256: str
    """Fingerprint of the certified key (DER SubjectPublicKeyInfo), hexadecimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A certificate that is decided on and not signed yet, and the signer that signs it."""

    leaf: Leaf
    signer: Signer
    identities: tuple[str, ...]

    def signed(self, public_key: EncodedKey, *, named: bool) -> Issued:
        """Sign the certificate here; `named`: it gets a common name, as its request has one."""
        leaf_pem = signed_leaf(self.leaf, public_key, self.signer.template, named=named)
        return self.issued(leaf_pem, public_key_sha256=public_key.sha256())

    def issued(self, leaf_pem: bytes, *, public_key_sha256: str) -> Issued:
        """Return the certificate, signed, with its chain."""
        return Issued(
            chain_pem=(leaf_pem, *self.signer.intermediates_pem, self.signer.root_pem),
            serial=self.leaf.serial,
            not_before=self.leaf.not_before,
            not_after=self.leaf.not_after,
            identities=self.identities,
            public_key_sha256=public_key_sha256,
        )


class Authority:
    """Signs certificates with one signer, which can be replaced while running."""

    def __init__(
        self, signer: Signer, *, trust_domain: str, clock: Callable[[], float] = time.time
    ) -> None:
        """Sign with `signer` for SPIFFE ids of `trust_domain`; `clock` returns the Unix time."""
        self._signer = signer
        self._trust_domain = checked_trust_domain(trust_domain)
        self._clock = clock

    @property
    def trust_domain(self) -> str:
        """The only trust domain whose SPIFFE ids are certified."""
        return self._trust_domain

    @property
    def root_pem(self) -> bytes:
        """The trust bundle: PEM, one root or several."""
        return self._signer.root_pem

    @property
    def not_after(self) -> datetime:
        """When the signing certificate, or one above it, expires: no leaf outlives this."""
        return self._signer.not_after

    @property
    def root_not_after(self) -> datetime:
        """When the root that vouches for the signing certificate expires."""
        return self._signer.root_not_after

    @property
    def signer(self) -> Signer:
        """The key and certificate that sign now, with all certificates up to the root."""
        return self._signer

    def replace_signer(self, signer: Signer) -> None:
        """Sign with `signer` from the next call on."""
        self._signer = signer

    def now(self) -> datetime:
        """The time by this authority's clock, in whole seconds."""
        return whole_second(self._clock())

    def sign(
        self,
        csr_pem: bytes,
        *,
        identities: Sequence[str],
        lifetime: timedelta | None = None,
        proven_at: datetime | None = None,
        is_key_revoked: Callable[[str], bool] = lambda _sha256: False,
    ) -> Issued:
        """Certify the key of a CSR for `identities`; all else in the CSR is ignored.

        The certificate expires after `lifetime` (24 hours if None), earlier if the signer does. Its
        serial number tells when its holder proved its identity: `proven_at`, now if None.
        `is_key_revoked` is asked for the key by the SHA-256 of its SubjectPublicKeyInfo,
        hexadecimal. Raises CsrError, LifetimeError, IdentityError, NotReadyError.
        """
        request = parse_csr(csr_pem)
        public_key = EncodedKey.encode(request.public_key)
        if is_key_revoked(public_key.sha256()):
            raise CsrError(KEY_REVOKED)
        order = self.order(identities, lifetime=lifetime, proven_at=proven_at)
        return order.signed(public_key, named=request.has_common_name)

    def order(
        self,
        identities: Sequence[str],
        *,
        lifetime: timedelta | None = None,
        proven_at: datetime | None = None,
    ) -> "Order":
        """Decide all that a certificate will say but its key; parameters and errors as of `sign`.

        Raises LifetimeError, IdentityError, NotReadyError.
        """
        signer = self._signer
        names = alternative_names(identities, trust_domain=self._trust_domain)
        now = self.now()
        not_before, not_after = _validity(
            now, DEFAULT_LIFETIME if lifetime is None else lifetime, signer
        )
        leaf = Leaf(
            names=names,
            common_name=identities[0],
            serial=serial_number(proven_at or now),
            not_before=not_before,
            not_after=not_after,
        )
        return Order(leaf=leaf, signer=signer, identities=tuple(identities))

    def issue_server_certificate(
        self, dns_names: Sequence[str], lifetime: timedelta = DEFAULT_LIFETIME
    ) -> tuple[bytes, bytes]:
        """Make a P-256 key and a certificate for a server's own names (or IP addresses).

        Returns the key and the chain, both PEM; the chain leaf first, without the root.
        Raises LifetimeError, IdentityError, NotReadyError.
        """
        key = new_key(KeyType.P256)
        public_key = EncodedKey.encode(key.public_key())
        issued = self.order(dns_names, lifetime=lifetime).signed(public_key, named=False)
        return key_pem(key), b"".join(issued.chain_pem[:-1])


def _validity(now: datetime, lifetime: timedelta, signer: Signer) -> tuple[datetime, datetime]:
    """Return the validity of a leaf, inside the signer's: a chain is valid as a whole or not."""
    if lifetime < timedelta(seconds=1):
        raise LifetimeError(f"lifetime of {lifetime.total_seconds():g} s, at least 1 s is needed")
    if now >= signer.not_after:
        raise NotReadyError(f"the signing certificate has expired at {signer.not_after:%F %T} UTC")
    if now < signer.not_before:
        raise NotReadyError(f"the signing certificate is valid from {signer.not_before:%F %T} UTC")
    # Compared as lengths: the sum may lie past the last date there is.
    not_after = signer.not_after if lifetime >= signer.not_after - now else now + lifetime
    return max(now - CLOCK_SKEW, signer.not_before), not_after.replace(microsecond=0)
