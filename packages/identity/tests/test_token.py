"""What is said of a token, and what never is."""

import base64
import json

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_identity import token_claims, token_facts, token_fault

NOW = 1_800_000_000.0
KEY = "a key of thirty-two bytes or more, for tests"
GOOD: dict[str, object] = {
    "iss": "https://kubernetes.default.svc",
    "sub": "system:serviceaccount:shop:cart",
    "aud": ["istio-ca"],
    "exp": NOW + 3600,
    "nbf": NOW - 60,
}


def token(**changed: object) -> str:
    return jwt.encode({**GOOD, **changed}, KEY, algorithm="HS256")


def test_a_good_token_has_no_fault() -> None:
    assert token_fault(token(), now=NOW) is None
    assert token_fault(f"{token()}\n", now=NOW) is None
    assert token_facts(token(), now=NOW) == (
        "expires in 60 min, is from issuer https://kubernetes.default.svc for audience istio-ca "
        "and of subject system:serviceaccount:shop:cart"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("opaque", "is no JSON Web Token"),
        ("a.b.c", "is no JSON Web Token"),
        ("a.b.c.d", "is no JSON Web Token"),
        (token(exp=NOW - 720), "expired 12 min ago"),
        (token(exp=NOW), "expired 0 s ago"),
        (token(exp=NOW - 90), "expired 90 s ago"),
        (token(exp=NOW - 3 * 86_400), "expired 3 days ago"),
        (
            token(nbf=NOW + 7200),
            "is not valid for another 2 h: is this machine's clock right?",
        ),
    ],
)
def test_a_fault_is_named(text: str, fault: str) -> None:
    assert token_fault(text, now=NOW) == fault
    assert token_facts(text, now=NOW).startswith(fault)


def test_a_foreign_token_is_described() -> None:
    facts = token_facts(token(aud="vault", iss="https://elsewhere.example", sub=""), now=NOW)
    assert "from issuer https://elsewhere.example for audience vault and of subject (none)" in facts


def test_times_that_are_no_times_are_none() -> None:
    values: tuple[object, ...] = ("soon", True, None, [], float("inf"), 10**400)
    for value in values:
        encoded = base64.urlsafe_b64encode(json.dumps({"exp": value}).encode()).decode()
        claims = token_claims(f"e30.{encoded}.x")
        assert claims is not None
        assert claims.expires_at is None


def test_what_is_shown_is_short_and_printable() -> None:
    facts = token_facts(token(iss="x" * 5000, aud=["a\nb\x1b[0m"] * 50, sub="\u202e"), now=NOW)
    assert facts.isprintable()
    assert len(facts) < 1500
    assert "and 45 more" in facts


@given(st.text() | st.builds(lambda a, b: f"{a}.{b}.x", st.text(), st.text()))
def test_no_text_makes_it_fail(text: str) -> None:
    token_fault(text, now=NOW)
    token_facts(text, now=NOW)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_claims_make_it_fail(claims: object) -> None:
    encoded = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    assert token_facts(f"e30.{encoded}.x", now=NOW).isprintable()


def test_the_token_is_in_no_text() -> None:
    for text in (token(), token(exp=NOW - 1), "secret-opaque-token", f"x.{'y' * 40_000}.z"):
        said = f"{token_fault(text, now=NOW)} {token_facts(text, now=NOW)}"
        assert text not in said
        assert not any(part in said for part in text.split(".") if len(part) > 8)


def test_a_deep_or_long_token_is_none() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 10_000).decode()
    assert token_claims(f"e30.{deep}.x") is None
    assert token_claims(f"e30.{'A' * 20_000}.x") is None
