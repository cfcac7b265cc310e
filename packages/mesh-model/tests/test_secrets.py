"""The certificates and roots that names of secrets mean."""

import pytest

from istio_config import ConfigObject, InFile
from istio_config.kinds.kubernetes import SecretFields
from key_material import small_rsa_pair
from mesh_model.secrets import (
    KeyPair,
    NoSecret,
    Roots,
    SecretName,
    Secrets,
    parse_secret_name,
    secrets_of,
)
from mesh_testkit.certificates import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("a.example")
SMALL = small_rsa_pair()
PAIR = {"tls.crt": ISSUED.chain_pem.decode(), "tls.key": ISSUED.key_pem.decode()}
ROOTS = {"ca.crt": AUTHORITY.root_pem.decode()}


def secret(name: str, namespace: str = "shop", **values: str) -> ConfigObject:
    return ConfigObject(
        kind="Secret",
        namespace=namespace,
        name=name,
        spec=SecretFields(string_data=values),
        origin=InFile("secrets.yaml", 1),
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("kubernetes://a", SecretName("shop", "a")),
        ("kubernetes://a-cacert", SecretName("shop", "a-cacert")),
        ("kubernetes://other/a", SecretName("other", "a")),
        ("kubernetes-gateway://other/a", SecretName("other", "a", by_gateway=True)),
        ("kubernetes://", None),
        ("kubernetes://a/b/c", None),
        ("kubernetes:///a", None),
        ("default", None),
        ("file-cert:/a~/b", None),
    ],
)
def test_name_of_a_secret_has_a_namespace_or_means_the_routers(
    text: str, meant: SecretName | None
) -> None:
    assert parse_secret_name(text, "shop") == meant


def test_certificate_is_that_of_the_secret_of_the_name() -> None:
    secrets = Secrets.build((secret("a", **PAIR), secret("a", "other", x="y")))
    found = secrets.find(SecretName("shop", "a"))
    assert found == KeyPair(chain_pem=ISSUED.chain_pem, key_pem=ISSUED.key_pem)
    assert "PRIVATE" not in repr(found)


@pytest.mark.parametrize("of", ["a", "a-cacert"])
def test_roots_are_in_the_same_secret_or_in_one_of_their_own(of: str) -> None:
    secrets = Secrets.build((secret(of, **ROOTS),))
    found = secrets.find(SecretName("shop", "a-cacert"))
    assert found == Roots(roots_pem=AUTHORITY.root_pem)


def test_roots_of_their_own_come_first() -> None:
    other = Authority().root_pem.decode()
    secrets = Secrets.build((secret("a", **PAIR, **ROOTS), secret("a-cacert", cacert=other)))
    assert secrets.find(SecretName("shop", "a-cacert")) == Roots(roots_pem=other.encode())


@pytest.mark.parametrize(
    ("found", "asked", "reason"),
    [
        ((), "a", "there is no Secret a in the namespace shop"),
        ((), "a-cacert", "there is no Secret a-cacert in the namespace shop"),
        ((secret("a", x="y"),), "a", "has no tls.crt and tls.key"),
        ((secret("a", **PAIR),), "a-cacert", "has no ca.crt"),
        ((secret("a", cert="x", key="y"),), "a", "holds no certificate in PEM"),
        ((secret("a", cert=SMALL[0].decode(), key=SMALL[1].decode()),), "a", "less than 2048"),
        ((secret("a", **{"ca.crt": "x"}),), "a-cacert", "holds no certificates in PEM"),
    ],
)
def test_name_without_a_usable_secret_has_the_reason(
    found: tuple[ConfigObject, ...], asked: str, reason: str
) -> None:
    answer = Secrets.build(found).find(SecretName("shop", asked))
    assert isinstance(answer, NoSecret)
    assert reason in answer.reason


def test_secrets_that_differ_are_named_and_equal_ones_are_kept() -> None:
    kept = secret("kept", x="y")
    before = Secrets.build((kept, secret("changed", x="1"), secret("gone"), secret("same", x="2")))
    after = Secrets.build((kept, secret("changed", x="2"), secret("come"), secret("same", x="2")))
    assert before.differing(after) == {("shop", "changed"), ("shop", "gone"), ("shop", "come")}
    assert (
        Secrets.build([kept], Secrets.build((kept,))).differing(Secrets.build((kept,)))
        == frozenset()
    )
    first = Secrets.build((kept,))
    assert Secrets.build([kept], first) is first


def test_name_of_roots_depends_on_two_secrets() -> None:
    assert secrets_of(SecretName("shop", "a-cacert")) == {("shop", "a"), ("shop", "a-cacert")}
    assert secrets_of(SecretName("shop", "a")) == {("shop", "a")}
