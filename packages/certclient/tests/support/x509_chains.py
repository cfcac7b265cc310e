"""Certificate chains of every kind, most of which no builder of certificates would make.

A certificate is described by a `Cert`, encoded by hand as DER and signed with a real key; so a
version, an extension or a signature may be as wrong as a test wants it. A chain is root,
intermediate and leaf, each after its edits, and then put in whatever order.
"""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certclient import SpiffeId

SPIFFE_ID = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/cart")
SERVER_NAME = "ca.test"

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
Extension = tuple[x509.ExtensionType, bool]


@dataclass(frozen=True, kw_only=True)
class Cert:
    """One certificate as it is to be issued; days are counted from now."""

    subject: str
    key: str = "p256"
    begins: float = -1
    ends: float = 1
    version: int | None = 3
    serial: int = 0x1234567890
    hashed_with: str = "sha256"
    algorithm_inside: str | None = None
    extensions: tuple[Extension, ...] = ()
    issuer: str | None = None
    damaged: bool = False


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A certificate that was issued, and its key."""

    cert: Cert
    der: bytes
    key: Key


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What an authority answers, or a server presents."""

    issued: tuple[Issued, ...]
    roots: tuple[Issued, ...]

    @property
    def key(self) -> Key:
        return self.issued[0].key

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    @property
    def issued_pem(self) -> bytes:
        return b"".join(_pem(each.der) for each in self.issued)

    @property
    def roots_pem(self) -> bytes:
        return b"".join(_pem(each.der) for each in self.roots)


Edit = Callable[[Cert], Cert]
Names = tuple[x509.GeneralName, ...]
Arrange = Callable[["Parts"], Chain]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The three certificates of a chain, and what can be signed with the keys of two of them."""

    root: Issued
    intermediate: Issued
    leaf: Issued

    def chain(self, *issued: Issued, roots: Iterable[Issued] | None = None) -> Chain:
        return Chain(issued=issued, roots=tuple(roots) if roots is not None else (self.root,))


def chain_with(
    names: Names,
    *,
    leaf: Iterable[Edit] = (),
    intermediate: Iterable[Edit] = (),
    root: Iterable[Edit] = (),
    arranged: Arrange | None = None,
) -> Chain:
    """Make a chain that is good but for the edits; names: the leaf's alternative names."""
    issued_root = signed(_edited(authority("root"), root))
    issued_intermediate = signed(_edited(authority("intermediate"), intermediate), by=issued_root)
    good = Cert(subject="", extensions=_leaf_extensions(names))
    issued_leaf = signed(_edited(good, leaf), by=issued_intermediate)
    parts = Parts(root=issued_root, intermediate=issued_intermediate, leaf=issued_leaf)
    if arranged is not None:
        return arranged(parts)
    return parts.chain(issued_leaf, issued_intermediate)


def authority(name: str) -> Cert:
    """Describe a good CA certificate."""
    return Cert(
        subject=name,
        extensions=(
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (usage("key_cert_sign", "crl_sign"), True),
            (x509.SubjectKeyIdentifier.from_public_key(_key("p256", name).public_key()), False),
        ),
    )


def signed(cert: Cert, *, by: Issued | None = None) -> Issued:
    """Make a certificate; without an issuer it is self-signed."""
    key = _key(cert.key, cert.subject)
    signer = by.key if by is not None else key
    issuer = cert.issuer or (by.cert.subject if by is not None else cert.subject)
    now = datetime.now(UTC)
    algorithm = _algorithm(signer, cert.hashed_with)
    inside = algorithm
    if cert.algorithm_inside is not None:
        inside = _algorithm(signer, cert.algorithm_inside)
    to_sign = _sequence(
        _tlv(0xA0, _integer(cert.version - 1)) if cert.version is not None else b"",
        _integer(cert.serial),
        inside,
        _name(issuer),
        _sequence(_time(now + timedelta(days=cert.begins)), _time(now + timedelta(days=cert.ends))),
        _name(cert.subject),
        key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        _tlv(0xA3, _sequence(*map(_extension, cert.extensions))) if cert.extensions else b"",
    )
    signature = bytearray(_signature(signer, to_sign, cert.hashed_with))
    if cert.damaged:
        signature[-1] ^= 1
    der = _sequence(to_sign, algorithm, _tlv(0x03, b"\0" + bytes(signature)))
    return Issued(cert=cert, der=der, key=key)


def revocation_list(issuer: Issued, *serials: int) -> x509.CertificateRevocationList:
    """Make a revocation list of these serials."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(x509.load_der_x509_certificate(issuer.der).subject)
        .last_update(now - timedelta(days=1))
        .next_update(now + timedelta(days=1))
    )
    for serial in serials:
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
        builder = builder.add_revoked_certificate(revoked.build())
    if not isinstance(issuer.key, ec.EllipticCurvePrivateKey):
        raise TypeError("only an authority with an EC key signs lists here")
    return builder.sign(issuer.key, hashes.SHA256())


# The edits.


def fields(**changes: object) -> Edit:
    """Change a field of the certificate other than its extensions."""
    return lambda cert: replace(cert, **changes)  # type: ignore[arg-type]


def extension(value: x509.ExtensionType, *, critical: bool = False) -> Edit:
    """Add an extension, in place of the one of its kind."""
    return lambda cert: replace(
        cert,
        extensions=(
            *(each for each in cert.extensions if each[0].oid != value.oid),
            (value, critical),
        ),
    )


def repeated(kind: type[x509.ExtensionType]) -> Edit:
    """Have an extension twice."""
    return lambda cert: replace(
        cert,
        extensions=(
            *cert.extensions,
            *(each for each in cert.extensions if isinstance(each[0], kind)),
        ),
    )


def without(kind: type[x509.ExtensionType]) -> Edit:
    """Leave an extension out."""
    return lambda cert: replace(
        cert, extensions=tuple(each for each in cert.extensions if not isinstance(each[0], kind))
    )


def unknown(oid: str = "1.3.6.1.4.1.55555.1", *, critical: bool) -> Edit:
    """Add an extension that TLS libraries do not know."""
    value = x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), b"\x05\x00")
    return extension(value, critical=critical)


def garbled(kind: type[x509.ExtensionType]) -> Edit:
    """Have an extension of a known kind whose content cannot be read."""

    def edit(cert: Cert) -> Cert:
        (critical,) = (each[1] for each in cert.extensions if isinstance(each[0], kind))
        value = x509.UnrecognizedExtension(kind.oid, b"\x30\x03\x02\x01")
        return extension(value, critical=critical)(cert)

    return edit


def usage(*names: str) -> x509.KeyUsage:
    """Make a key usage of these bits."""
    every = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: name in names for name in every})


def purposes(*oids: x509.ObjectIdentifier) -> Edit:
    """Set the extended key usage."""
    return extension(x509.ExtendedKeyUsage(oids))


def alternative_names(*names: x509.GeneralName) -> Edit:
    """Set the alternative names."""
    return extension(x509.SubjectAlternativeName(names))


def further_name(name: x509.GeneralName) -> Edit:
    """Add a further alternative name."""

    def edit(cert: Cert) -> Cert:
        (names,) = (
            each[0] for each in cert.extensions if isinstance(each[0], x509.SubjectAlternativeName)
        )
        return alternative_names(*names, name)(cert)

    return edit


def permitted(*names: x509.GeneralName, critical: bool = True) -> Edit:
    """Set name constraints that let these through."""
    return extension(
        x509.NameConstraints(permitted_subtrees=names, excluded_subtrees=None), critical=critical
    )


def excluded(*names: x509.GeneralName, critical: bool = True) -> Edit:
    """Set name constraints that let these not through."""
    return extension(
        x509.NameConstraints(permitted_subtrees=None, excluded_subtrees=names), critical=critical
    )


# The encoding.


@cache
def _key(kind: str, owner: str) -> Key:  # noqa: ARG001 - the cache looks at it
    """Return the key of an owner, always the same."""
    curves = {
        "p256": ec.SECP256R1(),
        "p384": ec.SECP384R1(),
        "p521": ec.SECP521R1(),
        "secp256k1": ec.SECP256K1(),
    }
    if kind in curves:
        return ec.generate_private_key(curves[kind])
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))


def _edited(cert: Cert, edits: Iterable[Edit]) -> Cert:
    for edit in edits:
        cert = edit(cert)
    return cert


def _leaf_extensions(names: Names) -> tuple[Extension, ...]:
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (usage("digital_signature"), True),
        (x509.ExtendedKeyUsage(both), False),
        (x509.SubjectAlternativeName(names), True),
    )


def _pem(der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).encode()


def _signature(key: Key, data: bytes, hashed_with: str) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    algorithms: dict[str, hashes.HashAlgorithm] = {
        "md5": hashes.MD5(),  # noqa: S303 - to be refused
        "sha1": hashes.SHA1(),  # noqa: S303 - to be refused
        "sha224": hashes.SHA224(),
        "sha256": hashes.SHA256(),
        "sha384": hashes.SHA384(),
        "sha512": hashes.SHA512(),
    }
    algorithm = algorithms[hashed_with]
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), algorithm)
    return key.sign(data, ec.ECDSA(algorithm))


def _algorithm(key: Key, hashed_with: str) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return _sequence(_oid("1.3.101.112"))
    if isinstance(key, rsa.RSAPrivateKey):
        number = {"md5": 4, "sha1": 5, "sha256": 11, "sha384": 12, "sha512": 13, "sha224": 14}
        return _sequence(_oid(f"1.2.840.113549.1.1.{number[hashed_with]}"), b"\x05\x00")
    ecdsa = {"sha1": "1", "sha224": "3.1", "sha256": "3.2", "sha384": "3.3", "sha512": "3.4"}
    return _sequence(_oid(f"1.2.840.10045.4.{ecdsa[hashed_with]}"))


def _extension(each: Extension) -> bytes:
    value, critical = each
    content = value.value if isinstance(value, x509.UnrecognizedExtension) else value.public_bytes()
    return _sequence(
        _oid(value.oid.dotted_string),
        b"\x01\x01\xff" if critical else b"",
        _tlv(0x04, content),
    )


def _name(text: str) -> bytes:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, text)] if text else []
    return x509.Name(attributes).public_bytes()


def _time(when: datetime) -> bytes:
    return _tlv(0x17, when.strftime("%y%m%d%H%M%SZ").encode())


def _integer(value: int) -> bytes:
    return _tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytearray()
    for arc in (first * 40 + second, *rest):
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(arc & 0x7F | 0x80)
        content += bytes(reversed(digits))
    return _tlv(0x06, bytes(content))


def _sequence(*parts: bytes) -> bytes:
    return _tlv(0x30, b"".join(parts))


def _tlv(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content
