import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca import (
    Credentials,
    JwtAuthenticator,
    NotAuthenticated,
    StorageError,
    TokenIssuer,
    VerificationKey,
)
from mesh_ca.callers._jwt import VerifiedTokens, _VerifiedToken

NOW = 1_800_000_000.0
ISSUER = "https://issuer.example"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
GOOD: dict[str, object] = {
    "iss": ISSUER,
    "sub": "system:serviceaccount:shop:cart",
    "aud": ["istio-ca"],
    "exp": NOW + 60,
    "iat": NOW,
    "nbf": NOW,
}


class Keys:
    """Two keys, one of each algorithm."""

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        keys = (
            VerificationKey(kid="rsa", algorithm="RS256", key=RSA_KEY.public_key()),
            VerificationKey(kid="ec", algorithm="ES256", key=EC_KEY.public_key()),
        )
        return [key for key in keys if kid in {None, key.kid}]


class ChangingKeys(Keys):
    """Of the two those whose names are in `trusted`."""

    def __init__(self) -> None:
        self.trusted = {"rsa", "ec"}

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        return [key for key in await super().find(kid) if key.kid in self.trusted]


class NoKeys:
    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        del kid
        raise StorageError("/keys.json is not there")


def authenticator() -> JwtAuthenticator:
    return JwtAuthenticator(
        ISSUER, ["istio-ca", "other"], jwks=Keys(), trust_domain="cluster.local", clock=lambda: NOW
    )


def bearer(token: str, *, encrypted: bool = True) -> Credentials:
    return Credentials(metadata={"authorization": f"Bearer {token}"}, encrypted=encrypted)


def signed(claims: object, *, kid: str | None = "ec") -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    headers = {} if kid is None else {"kid": kid}
    if kid == "rsa":
        return jwt.PyJWS().encode(payload, RSA_KEY, "RS256", headers)
    return jwt.PyJWS().encode(payload, EC_KEY, "ES256", headers)


@pytest.mark.parametrize("kid", ["rsa", "ec", None])
@pytest.mark.parametrize("audience", [["istio-ca"], ["x", "other"]])
async def test_token_names_the_service_account(kid: str | None, audience: list[str]) -> None:
    token = signed({**GOOD, "aud": audience}, kid=kid)
    caller = await authenticator().authenticate(bearer(token))
    assert caller.identities == ("spiffe://cluster.local/ns/shop/sa/cart",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": ["elsewhere"]}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"aud": [["istio-ca"], 1]}, "another audience"),
        ({"aud": "istio-ca"}, "not an array"),
        ({"aud": None}, "not an array"),
        ({"exp": NOW}, "expired"),
        ({"exp": NOW - 1}, "expired"),
        ({"exp": str(NOW + 60)}, "proper time of exp"),
        ({"exp": True}, "proper time of exp"),
        ({"exp": None}, "proper time of exp"),
        ({"exp": 10**400}, "proper time of exp"),
        ({"nbf": -(10**400)}, "proper time of nbf"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"iat": NOW + 3600}, "not valid yet"),
        ({"sub": "system:serviceaccount:"}, "token subject"),
        ({"sub": "system:serviceaccount:shop"}, "token subject"),
        ({"sub": "system:serviceaccount:shop:cart:more"}, "token subject"),
        ({"sub": "system:serviceaccount::cart"}, "namespace ''"),
        ({"sub": "system:serviceaccount:shop:"}, "service account ''"),
        ({"sub": "system:serviceaccount:shop:a/../b"}, "service account"),
        ({"sub": "system:serviceaccount:kube-system/sa/admin:x"}, "namespace"),
        ({"sub": "system:node:shop:cart"}, "token subject"),
        ({"sub": "cart"}, "token subject"),
        ({"sub": ""}, "token subject"),
        ({"sub": None}, "token subject"),
        ({"sub": ["system:serviceaccount:shop:cart"]}, "token subject"),
    ],
)
async def test_wrong_claims_are_not_authenticated(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(NotAuthenticated, match=reason):
        await authenticator().authenticate(bearer(signed({**GOOD, **changes})))


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b"garbage",
        b"[" * 5000,
        b'{"exp": NaN}',
        b"\xff",
        b'{"iss": "https://issuer.example", "aud": ["istio-ca"], "exp": 1e999}',
    ],
)
async def test_signed_nonsense_is_refused(payload: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        await authenticator().authenticate(bearer(signed(payload)))


@cache
def other_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (jwt.encode(GOOD, other_key(), "ES256", {"kid": "ec"}), "signature is wrong"),
        (jwt.encode(GOOD, other_key(), "ES256", {"kid": "new"}), "unknown key 'new'"),
        (jwt.encode(GOOD, EC_KEY, "ES256", {"kid": "rsa"}), "unknown key"),
        (jwt.encode(GOOD, "s" * 64, "HS256", {"kid": "rsa"}), "neither RS256 nor ES256"),
        (jwt.encode(GOOD, "", "none", {"kid": "rsa"}), "neither RS256 nor ES256"),
        (signed(GOOD)[:-2], "signature is wrong|not a JSON Web Token"),
        (signed(GOOD) + "." + "x", "signature is wrong|not a JSON Web Token"),
        ("a.b.c", "not a JSON Web Token"),
        ("x" * 20_000, "token of 20000 bytes"),
        ("", "no bearer token"),
    ],
)
async def test_tokens_that_no_key_verifies(token: str, reason: str) -> None:
    with pytest.raises(NotAuthenticated, match=reason):
        await authenticator().authenticate(bearer(token))


@pytest.mark.parametrize("header", ["", "Bearer", "Basic dXNlcjpwYXNz", "token abc"])
async def test_other_headers_are_no_token(header: str) -> None:
    with pytest.raises(NotAuthenticated, match="no bearer token"):
        await authenticator().authenticate(
            Credentials(metadata={"authorization": header}, encrypted=True)
        )


async def test_call_without_a_header_has_no_token() -> None:
    with pytest.raises(NotAuthenticated, match="no bearer token"):
        await authenticator().authenticate(Credentials(metadata={}, encrypted=True))


async def test_token_over_plaintext_counts_only_when_allowed() -> None:
    credentials = bearer(signed(GOOD), encrypted=False)
    with pytest.raises(NotAuthenticated, match="plaintext"):
        await authenticator().authenticate(credentials)
    allowing = JwtAuthenticator(
        ISSUER,
        ["istio-ca"],
        jwks=Keys(),
        trust_domain="cluster.local",
        allow_plaintext=True,
        clock=lambda: NOW,
    )
    assert (await allowing.authenticate(credentials)).method == "token"


async def test_unreadable_keys_authenticate_no_one() -> None:
    without_keys = JwtAuthenticator(
        ISSUER, ["istio-ca"], jwks=NoKeys(), trust_domain="cluster.local", clock=lambda: NOW
    )
    with pytest.raises(NotAuthenticated, match="no keys to check tokens with"):
        await without_keys.authenticate(bearer(signed(GOOD)))


def test_one_audience_given_as_a_string_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="a collection of strings"):
        JwtAuthenticator(ISSUER, "istio-ca", jwks=Keys(), trust_domain="cluster.local")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(name=st.sampled_from(sorted(GOOD)), value=json_values)
async def test_any_value_of_any_claim_is_accepted_or_refused(name: str, value: object) -> None:
    try:
        caller = await authenticator().authenticate(bearer(signed({**GOOD, name: value})))
    except NotAuthenticated:
        return
    (identity,) = caller.identities
    assert identity.startswith("spiffe://cluster.local/ns/")


@given(st.text(max_size=200))
async def test_any_text_for_a_token_is_verified_or_refused(text: str) -> None:
    with pytest.raises(NotAuthenticated):
        await authenticator().authenticate(bearer(text))


@given(st.binary(max_size=100), st.binary(max_size=100))
async def test_any_header_and_payload_are_verified_or_refused(
    header: bytes, payload: bytes
) -> None:
    from base64 import urlsafe_b64encode

    parts = (urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, payload, b"sig"))
    with pytest.raises(NotAuthenticated):
        await authenticator().authenticate(bearer(".".join(parts)))


async def test_deeply_nested_header_is_refused() -> None:
    from base64 import urlsafe_b64encode

    header = urlsafe_b64encode(b'{"alg":' + b"[" * 9000).rstrip(b"=").decode()
    with pytest.raises(NotAuthenticated):
        await authenticator().authenticate(bearer(f"{header}.e30.c2ln"))


async def test_token_of_our_token_issuer_is_accepted_until_it_expires(tmp_path: Path) -> None:
    from mesh_ca import JwksSource

    now = [NOW]
    issuer = TokenIssuer(tmp_path / "tokens", ISSUER, clock=lambda: now[0])
    issuer.write_jwks(tmp_path / "jwks.json")
    authenticating = JwtAuthenticator(
        ISSUER,
        ["istio-ca"],
        jwks=JwksSource(tmp_path / "jwks.json"),
        trust_domain="example.org",
        clock=lambda: now[0],
    )
    token = issuer.issue("shop", "cart", "istio-ca", timedelta(minutes=5))
    caller = await authenticating.authenticate(bearer(token))
    assert caller.identities == ("spiffe://example.org/ns/shop/sa/cart",)
    now[0] += 300
    with pytest.raises(NotAuthenticated, match="expired"):
        await authenticating.authenticate(bearer(token))


TOKENS = [
    signed(GOOD, kid="rsa"),
    signed(GOOD),
    signed({**GOOD, "sub": "system:serviceaccount:shop:basket"}),
    signed({**GOOD, "exp": NOW + 10}, kid=None),
    signed({**GOOD, "aud": ["elsewhere"]}),
]
TOKENS += [TOKENS[1][:-4] + "AAAA", TOKENS[1].replace(".", ".e", 1)]


@given(
    remembered=st.sampled_from([0, 1, 2, 100]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(TOKENS),
            st.sampled_from([NOW - 120, NOW, NOW + 10, NOW + 60]),
            st.sets(st.sampled_from(["rsa", "ec"])),
        ),
        max_size=20,
    ),
)
async def test_remembering_tokens_changes_no_answer(
    remembered: int, steps: list[tuple[str, float, set[str]]]
) -> None:
    keys, now = ChangingKeys(), [NOW]

    def new_authenticator(remembered_tokens: int) -> JwtAuthenticator:
        return JwtAuthenticator(
            ISSUER,
            ["istio-ca"],
            jwks=keys,
            trust_domain="cluster.local",
            remembered_tokens=remembered_tokens,
            clock=lambda: now[0],
        )

    async def answer(authenticator: JwtAuthenticator, token: str) -> object:
        try:
            return await authenticator.authenticate(bearer(token))
        except NotAuthenticated as error:
            return str(error)

    remembering, forgetful = new_authenticator(remembered), new_authenticator(0)
    for token, now[0], keys.trusted in steps:
        assert await answer(remembering, token) == await answer(forgetful, token)


async def test_remembered_token_is_refused_once_its_key_is_withdrawn() -> None:
    keys = ChangingKeys()
    callers = JwtAuthenticator(
        ISSUER, ["istio-ca"], jwks=keys, trust_domain="cluster.local", clock=lambda: NOW
    )
    token = bearer(signed(GOOD))
    await callers.authenticate(token)
    keys.trusted.remove("ec")
    with pytest.raises(NotAuthenticated, match="unknown key"):
        await callers.authenticate(token)
    keys.trusted.add("ec")
    await callers.authenticate(token)


async def test_tokens_are_remembered_up_to_a_number_and_never_as_they_are() -> None:
    (key,) = await Keys().find("ec")
    good = VerifiedTokens(2)
    tokens = {name: _VerifiedToken(key, "ec", {}) for name in (b"one", b"two", b"three")}
    for digest, token in tokens.items():
        good.add(digest, token)
    assert good.find(b"one") is None
    assert good.find(b"three") is tokens[b"three"]
    callers, shown = authenticator(), signed(GOOD)
    await callers.authenticate(bearer(shown))
    assert list(callers._verified_tokens._known) == [hashlib.sha256(shown.encode()).digest()]


async def test_remembered_token_is_refused_when_its_time_is_over() -> None:
    now = [NOW]
    callers = JwtAuthenticator(
        ISSUER, ["istio-ca"], jwks=Keys(), trust_domain="cluster.local", clock=lambda: now[0]
    )
    token = bearer(signed(GOOD))
    caller = await callers.authenticate(token)
    now[0] = NOW + 59
    assert await callers.authenticate(token) is caller
    now[0] = NOW + 60
    with pytest.raises(NotAuthenticated, match="expired"):
        await callers.authenticate(token)
    now[0] = NOW - 61
    with pytest.raises(NotAuthenticated, match="not valid yet"):
        await callers.authenticate(token)
    now[0] = NOW
    assert (await callers.authenticate(token)).identities == caller.identities
