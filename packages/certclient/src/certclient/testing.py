"""A certificate authority for tests: signs, and on request fails, hangs or answers wrongly."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certclient.authorities._fake_istio_ca import FakeIstioCa, fake_istio_ca
from certclient.authorities._fake_workload_api import FakeWorkloadApi, fake_workload_api
from certclient.x509._acceptance import accept
from certclient.x509._certificate import Certificate
from certclient.x509._key_types import KeyEncoding, KeyType
from certclient.x509._keys import new_private_key, signing_request
from mesh_identity import SpiffeId
from mesh_lifecycle import Clock, SystemClock

__all__ = [
    "FakeAuthority",
    "FakeIstioCa",
    "FakeWorkloadApi",
    "Fault",
    "ReceivedSigningRequest",
    "fake_istio_ca",
    "fake_workload_api",
    "issued",
]

_BACKDATED = timedelta(seconds=60)


class Fault(StrEnum):
    """A fault in an answer."""

    OTHER_KEY = "other key"
    OTHER_IDENTITY = "other identity"
    NO_IDENTITY = "no identity"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    FURTHER_NAME = "further name"
    CODE_SIGNING = "code signing only"
    CA_LEAF = "CA leaf"
    MUST_STAPLE = "must-staple"
    FOREIGN_ROOT = "foreign root"
    ROOT_IS_NO_AUTHORITY = "root is no authority"
    EMPTY = "empty"
    LEAF_ONLY = "leaf only"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSigningRequest:
    """One request that reached the authority."""

    csr: x509.CertificateSigningRequest
    lifetime: timedelta
    at: float = field(default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signer:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class FakeAuthority:
    """A `CertificateAuthority` with a root of its own.

    It signs any identity that is requested, with validity by `clock`. Each of the setters below
    applies until the next; `requests` has every call, in order.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        lifetime: timedelta | None = None,
        intermediates: int = 0,
    ) -> None:
        """lifetime: issued instead of the requested one."""
        self.requests: list[ReceivedSigningRequest] = []
        self._clock = clock or SystemClock()
        self._lifetime = lifetime
        self._intermediates = intermediates
        self._generation = 0
        self._signers: tuple[_Signer, ...] = ()
        self._error: Callable[[], BaseException] | None = None
        self._fault: Fault | None = None
        self._answer_chain: Callable[[x509.CertificateSigningRequest], tuple[bytes, ...]] | None = (
            None
        )
        self._hanging = False
        self._released = asyncio.Event()

    @property
    def root_pem(self) -> bytes:
        """The root of new certificates."""
        return self._issuers()[0].certificate.public_bytes(Encoding.PEM)

    def answer(self) -> None:
        """Sign requests again, including the ones that hang."""
        self._error = self._fault = self._answer_chain = None
        self._hanging = False
        self._released.set()

    def fail(self, error: Callable[[], BaseException]) -> None:
        """Raise the exception that `error` makes, for each request."""
        self.answer()
        self._error = error

    def answer_wrongly(self, fault: Fault) -> None:
        """Sign certificates with a fault."""
        self.answer()
        self._fault = fault

    def answer_with(
        self, make: Callable[[x509.CertificateSigningRequest], tuple[bytes, ...]]
    ) -> None:
        """Answer each request with the chain that `make` returns, PEM, leaf first and root last."""
        self.answer()
        self._answer_chain = make

    def hang(self) -> None:
        """Leave requests without an answer until the next setter is called."""
        self._hanging = True
        self._released.clear()

    def change_root(self) -> None:
        """Sign with a new root from now on."""
        self._generation += 1
        self._signers = ()

    def revocation_list(self, *serials: int) -> bytes:
        """Make a revocation list of these serials, signed by the issuer of the leaves; PEM."""
        signer, now = self._issuers()[-1], self._now()
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(signer.certificate.subject)
            .last_update(now - _BACKDATED)
            .next_update(now + timedelta(days=1))
        )
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(serial)
                .revocation_date(now - _BACKDATED)
                .build()
            )
        return builder.sign(signer.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        """Sign the request, or do what the last setter says."""
        csr = x509.load_pem_x509_csr(csr_pem)
        self.requests.append(
            ReceivedSigningRequest(csr=csr, lifetime=lifetime, at=self._clock.monotonic())
        )
        await asyncio.sleep(0)
        if self._hanging:
            await self._released.wait()
        if self._error is not None:
            raise self._error()
        if self._answer_chain is not None:
            return self._answer_chain(csr)
        return self._chain(csr, self._lifetime or lifetime)

    def _chain(self, csr: x509.CertificateSigningRequest, lifetime: timedelta) -> tuple[bytes, ...]:
        fault = self._fault
        signers = self._issuers()
        leaf = self._leaf(csr, lifetime, signers[-1])
        chain = [leaf, *(signer.certificate for signer in reversed(signers))]
        if fault is Fault.FOREIGN_ROOT:
            chain[-1] = _new_root("someone else", self._now()).certificate
        elif fault is Fault.ROOT_IS_NO_AUTHORITY:
            chain[-1] = leaf
        pem = tuple(certificate.public_bytes(Encoding.PEM) for certificate in chain)
        match fault:
            case Fault.EMPTY:
                return ()
            case Fault.LEAF_ONLY:
                return pem[:1]
            case Fault.GARBAGE:
                return (b"no certificate", *pem[1:])
            case _:
                return pem

    def _leaf(
        self, csr: x509.CertificateSigningRequest, lifetime: timedelta, signer: _Signer
    ) -> x509.Certificate:
        fault = self._fault
        not_before, not_after = self._now() - _BACKDATED, self._now() + lifetime
        if fault is Fault.EXPIRED:
            not_before, not_after = not_before - lifetime, self._now() - timedelta(seconds=1)
        elif fault is Fault.NOT_YET_VALID:
            not_before = self._now() + timedelta(hours=1)
            not_after = not_before + lifetime
        key: CertificatePublicKeyTypes = csr.public_key()
        if fault is Fault.OTHER_KEY:
            key = ec.generate_private_key(ec.SECP256R1()).public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(signer.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before)
            .not_valid_after(not_after)
            .add_extension(
                x509.BasicConstraints(ca=fault is Fault.CA_LEAF, path_length=None), critical=True
            )
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.CODE_SIGNING]
                    if fault is Fault.CODE_SIGNING
                    else [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
                critical=False,
            )
        )
        if fault is not Fault.NO_IDENTITY:
            names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            if fault is Fault.OTHER_IDENTITY:
                names = x509.SubjectAlternativeName(
                    [x509.UniformResourceIdentifier("spiffe://cluster.local/ns/other/sa/other")]
                )
            elif fault is Fault.FURTHER_NAME:
                names = x509.SubjectAlternativeName([*names, x509.DNSName("payments.shop.svc")])
            builder = builder.add_extension(names, critical=True)
        if fault is Fault.MUST_STAPLE:
            features = x509.TLSFeature([x509.TLSFeatureType.status_request])
            builder = builder.add_extension(features, critical=False)
        return builder.sign(signer.key, hashes.SHA256())

    def _issuers(self) -> tuple[_Signer, ...]:
        """Return the authorities, the root first, the issuer of the leaves last."""
        if not self._signers:
            signers = [_new_root(f"fake root {self._generation}", self._now())]
            for number in range(self._intermediates):
                signers.append(_new_intermediate(f"fake intermediate {number}", signers[-1]))
            self._signers = tuple(signers)
        return self._signers

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)


async def issued(
    authority: FakeAuthority,
    spiffe_id: SpiffeId,
    *,
    lifetime: timedelta = timedelta(hours=1),
    key_type: KeyType = KeyType.P256,
    key_encoding: KeyEncoding = KeyEncoding.PKCS8,
) -> Certificate:
    """Make one certificate that is valid now, for tests that fill files or servers themselves."""
    key = await new_private_key(key_type)
    chain = await authority.sign(signing_request(key, spiffe_id), lifetime=lifetime)
    return accept(
        chain, key=key, spiffe_id=spiffe_id, now=datetime.now(UTC), key_encoding=key_encoding
    )


def _new_root(name: str, now: datetime) -> _Signer:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    return _new_authority(subject, key, subject, key, now - timedelta(days=30))


def _new_intermediate(name: str, parent: _Signer) -> _Signer:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = parent.certificate
    return _new_authority(
        _name(name), key, certificate.subject, parent.key, certificate.not_valid_before_utc
    )


def _new_authority(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    not_before: datetime,
) -> _Signer:
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_before + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return _Signer(certificate=certificate, key=key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
