from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mesh_ca import (
    Authenticator,
    Caller,
    ClientCertificateAuthenticator,
    Credentials,
    FirstOf,
    NotAuthenticated,
)
from mesh_ca.testing import FixedAuthenticator, signing_request, throwaway_authority

CART = "spiffe://cluster.local/ns/shop/sa/cart"
NOW = 1_800_000_000.0
NOTHING = Credentials(metadata={}, encrypted=True)


def with_certificate(der: bytes) -> Credentials:
    return Credentials(metadata={}, encrypted=True, certificate_chain=(der,))


def certificate(*names: x509.GeneralName) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    authority = throwaway_authority(clock=lambda: NOW)
    root = x509.load_pem_x509_certificate(authority.root_pem)
    builder = x509.CertificateBuilder(
        x509.Name([]),
        x509.Name([]),
        key.public_key(),
        1,
        root.not_valid_before_utc,
        root.not_valid_after_utc,
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def unknown_version(der: bytes) -> bytes:
    return der.replace(b"\x02\x01\x02", b"\x02\x01\x07", 1)


def unknown_kind_of_name() -> bytes:
    """A certificate with an EDI party name where an e-mail address was."""
    return certificate(x509.RFC822Name("a@b.example")).replace(b"\x81\x0ba@b", b"\xa5\x0ba@b", 1)


async def test_client_certificates_names_are_the_callers_identities() -> None:
    authority = throwaway_authority(clock=lambda: NOW)
    issued = authority.sign(signing_request()[1], identities=[CART, "cart.shop.svc"])
    leaf = x509.load_pem_x509_certificate(issued.chain_pem[0])
    caller = await ClientCertificateAuthenticator(clock=lambda: NOW).authenticate(
        with_certificate(leaf.public_bytes(serialization.Encoding.DER))
    )
    assert caller.identities == (CART, "cart.shop.svc")


@pytest.mark.parametrize("elapsed", [timedelta(hours=24), timedelta(days=-1)])
async def test_certificate_that_expires_on_an_open_connection_is_no_proof(
    elapsed: timedelta,
) -> None:
    authority = throwaway_authority(clock=lambda: NOW)
    issued = authority.sign(signing_request()[1], identities=[CART])
    leaf = x509.load_pem_x509_certificate(issued.chain_pem[0])
    then = NOW + elapsed.total_seconds()
    with pytest.raises(NotAuthenticated, match="not valid now"):
        await ClientCertificateAuthenticator(clock=lambda: then).authenticate(
            with_certificate(leaf.public_bytes(serialization.Encoding.DER))
        )


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (NOTHING, "no client certificate"),
        (with_certificate(b"garbage"), "without readable"),
        (with_certificate(certificate()), "without readable"),
        (with_certificate(unknown_version(certificate())), "without readable contents"),
        (with_certificate(unknown_kind_of_name()), "without readable alternative names"),
        (with_certificate(certificate(x509.RFC822Name("a@b.example"))), "no URI or DNS name"),
        (
            with_certificate(
                certificate(
                    x509.UniformResourceIdentifier(CART), x509.UniformResourceIdentifier(CART + "2")
                )
            ),
            "2 URI names",
        ),
        (
            with_certificate(certificate(x509.UniformResourceIdentifier("https://a.example/"))),
            "not a SPIFFE id",
        ),
        (with_certificate(certificate(x509.UniformResourceIdentifier("a:b"))), "no SPIFFE id"),
    ],
)
async def test_client_certificates_that_prove_nothing(
    credentials: Credentials, reason: str
) -> None:
    with pytest.raises(NotAuthenticated, match=reason):
        await ClientCertificateAuthenticator(clock=lambda: NOW).authenticate(credentials)


@pytest.mark.parametrize(
    ("order", "identity"),
    [
        ([FixedAuthenticator(), FixedAuthenticator("b")], "b"),
        ([FixedAuthenticator("a"), FixedAuthenticator("b")], "a"),
        ([FixedAuthenticator("a"), FixedAuthenticator()], "a"),
    ],
)
async def test_first_authenticator_that_knows_the_caller_decides(
    order: list[Authenticator], identity: str
) -> None:
    assert await FirstOf(order).authenticate(NOTHING) == Caller(
        identities=(identity,), method="fixed"
    )


async def test_reasons_of_all_authenticators_are_reported() -> None:
    both = FirstOf([ClientCertificateAuthenticator(), FixedAuthenticator()])
    with pytest.raises(NotAuthenticated, match=r"no client certificate; .* has no identities"):
        await both.authenticate(NOTHING)
    with pytest.raises(NotAuthenticated, match="no authenticator"):
        await FirstOf([]).authenticate(NOTHING)


def test_tokens_do_not_show() -> None:
    credentials = Credentials(metadata={"authorization": "Bearer canary"}, encrypted=True)
    assert "canary" not in repr(credentials)
