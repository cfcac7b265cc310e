from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca import KeyType
from mesh_ca.authority._keys import EncodedKey, SigningKey, new_key, signature_hash
from mesh_ca.authority._profile import (
    EC_LEAF_USAGE,
    LEAF_PURPOSES,
    NOT_A_CA,
    RSA_LEAF_USAGE,
    Leaf,
    leaf_template,
    root_certificate,
    signed_leaf,
)

cached_key = cache(new_key)
ISSUER_KEYS = (KeyType.P256, KeyType.P384, KeyType.RSA_2048)
LEAF_KEYS = (
    *(ec.generate_private_key(curve) for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())),
    cached_key(KeyType.RSA_2048),
    cached_key(KeyType.RSA_4096),
)


@cache
def root_of(key_type: KeyType) -> x509.Certificate:
    return root_certificate(
        cached_key(key_type),
        organization="cluster.local",
        serial=1,
        now=datetime(2026, 1, 1, tzinfo=UTC),
        lifetime=timedelta(days=1),
    )


def key_ids(root: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    own = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def by_the_builder(
    leaf: Leaf,
    subject: EncodedKey,
    alternative: x509.SubjectAlternativeName,
    root: x509.Certificate,
    key: SigningKey,
    *,
    named: bool,
) -> x509.Certificate:
    """The same certificate built by cryptography's own builder."""
    attributes = []
    if named and len(leaf.common_name) <= 64:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, leaf.common_name))
    is_rsa = "RSA" in type(subject.key).__name__
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(root.subject)
        .public_key(subject.key)
        .serial_number(leaf.serial)
        .not_valid_before(leaf.not_before)
        .not_valid_after(leaf.not_after)
        .add_extension(RSA_LEAF_USAGE if is_rsa else EC_LEAF_USAGE, critical=True)
        .add_extension(LEAF_PURPOSES, critical=False)
        .add_extension(NOT_A_CA, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(subject.key), critical=False)
        .add_extension(key_ids(root), critical=False)
        .add_extension(alternative, critical=not attributes)
        .sign(key, signature_hash(key))
    )


EARLIEST, LATEST = datetime(1960, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
moments = st.integers(0, int((LATEST - EARLIEST).total_seconds())).map(
    lambda seconds: EARLIEST + timedelta(seconds=seconds)
)
uris = st.from_regex(r"spiffe://[a-z.]{1,200}(/[a-z0-9-]{1,60}){0,30}", fullmatch=True)
names = st.lists(
    uris.map(x509.UniformResourceIdentifier) | st.ip_addresses().map(x509.IPAddress),
    min_size=1,
    max_size=5,
)
common_names = st.none() | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x2FF), min_size=1, max_size=70
)


@pytest.mark.slow
@given(
    issuer=st.sampled_from(ISSUER_KEYS),
    subject=st.sampled_from(LEAF_KEYS),
    alternative=names,
    common_name=common_names,
    serial=st.integers(1, 2**128),
    begin=moments,
    lifetime=st.timedeltas(timedelta(0), timedelta(days=300)),
)
def test_leaf_is_to_the_byte_what_the_builder_makes(
    *,
    issuer: KeyType,
    subject: SigningKey,
    alternative: list[x509.GeneralName],
    common_name: str | None,
    serial: int,
    begin: datetime,
    lifetime: timedelta,
) -> None:
    key, root = cached_key(issuer), root_of(issuer)
    public_key = EncodedKey.encode(subject.public_key())
    named = common_name is not None
    leaf = Leaf(
        names=x509.SubjectAlternativeName(alternative).public_bytes(),
        common_name=common_name or "",
        serial=serial,
        not_before=begin,
        not_after=(begin + lifetime).replace(microsecond=0),
    )
    pem = signed_leaf(leaf, public_key, leaf_template(root, key, key_ids(root)), named=named)
    certificate = x509.load_pem_x509_certificate(pem)
    expected = by_the_builder(
        leaf,
        public_key,
        x509.SubjectAlternativeName(alternative),
        root,
        key,
        named=named,
    )
    assert certificate.tbs_certificate_bytes == expected.tbs_certificate_bytes
    assert certificate.signature_algorithm_oid == expected.signature_algorithm_oid
    certificate.verify_directly_issued_by(root)


@pytest.mark.parametrize("issuer", ISSUER_KEYS)
def test_pem_is_as_others_write_it(issuer: KeyType) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    key, root = cached_key(issuer), root_of(issuer)
    public_key = EncodedKey.encode(cached_key(KeyType.P256).public_key())
    leaf = Leaf(
        names=x509.SubjectAlternativeName([x509.DNSName("a.example")]).public_bytes(),
        common_name="",
        serial=7,
        not_before=datetime(2026, 1, 1, tzinfo=UTC),
        not_after=datetime(2026, 1, 2, tzinfo=UTC),
    )
    pem = signed_leaf(leaf, public_key, leaf_template(root, key, key_ids(root)), named=False)
    assert x509.load_pem_x509_certificate(pem).public_bytes(Encoding.PEM) == pem
