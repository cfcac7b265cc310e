import json
import stat
from datetime import timedelta
from pathlib import Path

import jwt
import pytest

from mesh_ca import IdentityError, LifetimeError, StorageError, TokenIssuer
from mesh_ca.callers._jwks import parse_jwks

NOW = 1_800_000_000.0
ISSUER = "https://issuer.example"


def issuer_in(directory: Path) -> TokenIssuer:
    return TokenIssuer(directory, ISSUER, clock=lambda: NOW)


def test_token_has_the_form_kubernetes_gives_it(tmp_path: Path) -> None:
    issuer = issuer_in(tmp_path / "tokens")
    token = issuer.issue("shop", "cart", "istio-ca", timedelta(hours=1))
    (key,) = parse_jwks(json.dumps(issuer.jwks()).encode())
    decoded = jwt.PyJWS().decode_complete(token, key.key, algorithms=["RS256"])
    claims = json.loads(decoded["payload"])
    assert decoded["header"]["kid"] == key.kid
    assert len(claims.pop("jti")) == 32
    assert claims == {
        "iss": ISSUER,
        "sub": "system:serviceaccount:shop:cart",
        "aud": ["istio-ca"],
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 3600,
    }


def test_key_is_kept_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "tokens"
    assert issuer_in(directory).jwks() == issuer_in(directory).jwks()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "token-key.pem").stat().st_mode) == 0o600


def test_key_set_holds_nothing_private(tmp_path: Path) -> None:
    (key,) = issuer_in(tmp_path / "tokens").jwks()["keys"]
    assert sorted(key) == ["alg", "e", "kid", "kty", "n", "use"]


def test_written_key_set_is_the_issuers(tmp_path: Path) -> None:
    issuer = issuer_in(tmp_path / "tokens")
    issuer.write_jwks(tmp_path / "jwks.json")
    assert json.loads((tmp_path / "jwks.json").read_text()) == issuer.jwks()
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["jwks.json"]


@pytest.mark.parametrize(("namespace", "name"), [("", "a"), ("a", ""), ("a:b", "c"), ("a", "b:c")])
def test_names_that_are_no_service_account(namespace: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(IdentityError):
        issuer_in(tmp_path / "tokens").issue(namespace, name)


def test_lifetime_must_be_above_zero(tmp_path: Path) -> None:
    with pytest.raises(LifetimeError):
        issuer_in(tmp_path / "tokens").issue("shop", "cart", lifetime=timedelta(0))


def test_damaged_key_is_a_clear_error(tmp_path: Path) -> None:
    directory = tmp_path / "tokens"
    issuer_in(directory).jwks()
    (directory / "token-key.pem").write_bytes(b"garbage")
    with pytest.raises(StorageError, match=r"token-key\.pem holds no readable PEM private key"):
        issuer_in(directory).jwks()


def test_key_set_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"can't write .*nowhere/jwks\.json: No such file"):
        issuer_in(tmp_path / "tokens").write_jwks(tmp_path / "nowhere" / "jwks.json")
