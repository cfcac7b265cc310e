import base64
from collections.abc import Callable
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mesh_ca import Authority, CsrError, KeyType
from mesh_ca.testing import signing_request

CART = "spiffe://cluster.local/ns/shop/sa/cart"


def pem(request: x509.CertificateSigningRequest) -> bytes:
    return request.public_bytes(serialization.Encoding.PEM)


def foreign_names() -> bytes:
    names = x509.SubjectAlternativeName(
        [
            x509.UniformResourceIdentifier("spiffe://cluster.local/ns/kube-system/sa/admin"),
            x509.DNSName("istiod.istio-system.svc"),
        ]
    )
    return signing_request(extensions=[names])[1]


def common_name_only() -> bytes:
    name = x509.NameAttribute(NameOID.COMMON_NAME, "spiffe://cluster.local/ns/x/sa/admin")
    return signing_request(subject=x509.Name([name]))[1]


def wants_to_be_a_ca() -> bytes:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
    constraints = x509.BasicConstraints(ca=True, path_length=3)
    return signing_request(extensions=[constraints, usage, purposes])[1]


def long_subject() -> bytes:
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, f"{n:02d}" + "u" * 60)
        for n in range(128)
    ]
    return signing_request(subject=x509.Name(attributes))[1]


def text_before() -> bytes:
    return b"Certificate Request:\r\n    Data:\r\n" + signing_request()[1].replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    "make", [foreign_names, common_name_only, wants_to_be_a_ca, long_subject, text_before]
)
def test_hostile_claims_yield_the_callers_identity_and_the_leaf_profile(
    make: Callable[[], bytes], authority: Authority
) -> None:
    issued = authority.sign(make(), identities=[CART])
    leaf = x509.load_pem_x509_certificate(issued.chain_pem[0])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    assert list(names) == [x509.UniformResourceIdentifier(CART)]
    assert [name.value for name in leaf.subject] in ([], [CART])
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not usage.key_cert_sign
    assert len(leaf.extensions) == 6


@cache
def small_rsa() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    return pem(x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256()))


def weak_exponent() -> bytes:
    key = rsa.generate_private_key(public_exponent=3, key_size=2048)
    return pem(x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256()))


def odd_curve() -> bytes:
    key = ec.generate_private_key(ec.SECP256K1())
    return pem(x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256()))


def edwards_key() -> bytes:
    key = ed25519.Ed25519PrivateKey.generate()
    return pem(x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, None))


def der_with_changed_end() -> bytes:
    der = x509.load_pem_x509_csr(signing_request(KeyType.RSA_2048)[1]).public_bytes(
        serialization.Encoding.DER
    )
    changed = base64.encodebytes(der[:-1] + bytes([der[-1] ^ 1]))
    return (
        b"-----BEGIN CERTIFICATE REQUEST-----\n" + changed + b"-----END CERTIFICATE REQUEST-----\n"
    )


def unknown_version() -> bytes:
    der = x509.load_pem_x509_csr(signing_request()[1]).public_bytes(serialization.Encoding.DER)
    changed = base64.encodebytes(der.replace(b"\x02\x01\x00", b"\x02\x01\x07", 1))
    return (
        b"-----BEGIN CERTIFICATE REQUEST-----\n" + changed + b"-----END CERTIFICATE REQUEST-----\n"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (small_rsa, "RSA key of 1024 bits"),
        (weak_exponent, "public exponent"),
        (odd_curve, "key on curve secp256k1"),
        (edwards_key, "unknown kind"),
        (der_with_changed_end, "not signed by its own key"),
        (unknown_version, "can't be parsed"),
        (lambda: signing_request()[0], "can't be parsed"),
        (lambda: b"", "can't be parsed"),
        (lambda: b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", "can't be parsed"),
        (lambda: signing_request()[1][:200], "can't be parsed"),
        (lambda: b"x" * 20_000, "CSR of 20000 bytes"),
        (lambda: b"\xe2\x98\x83", "can't be parsed"),
    ],
)
def test_request_at_fault_is_refused_with_the_reason(
    make: Callable[[], bytes], message: str, authority: Authority
) -> None:
    with pytest.raises(CsrError, match=message):
        authority.sign(make(), identities=[CART])
