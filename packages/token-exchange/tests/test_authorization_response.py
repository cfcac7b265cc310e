import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_token_exchange import AccessToken, ExchangeRefused, ExchangeUnavailable
from mesh_token_exchange._authorization_response import (
    AuthorizationResponse,
    PassingFailure,
    token_of,
)

GOOD = {"access_token": "t", "issued_token_type": "urn:a", "token_type": "Bearer"}


def response(
    fields: object, *, status: int = 200, content_type: str = "application/json"
) -> AuthorizationResponse:
    body = json.dumps(fields).encode()
    return AuthorizationResponse(status=status, content_type=content_type, body=body)


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [(None, None), (0, 0), (60, 60), (1.5, 1.5), ("3599", 3599), (10**400, 316_224_000)],
)
def test_token_is_read(expires_in: object, seconds: float | None) -> None:
    expected = AccessToken(value="t", issued_token_type="urn:a", expires_in_s=seconds, scope="a b")
    assert token_of(response({**GOOD, "expires_in": expires_in, "scope": "a b"})) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"access_token": ""},
        {"access_token": None},
        {"access_token": ["t"]},
        {"access_token": "a b"},
        {"access_token": "a\r\nb"},
        {"access_token": "t" * 70_000},
        {"issued_token_type": None},
        {"token_type": ""},
        {"scope": 1},
        {"scope": "a\nb"},
        {"expires_in": True},
        {"expires_in": -1},
        {"expires_in": "soon"},
        {"expires_in": "\u0663"},
        {"expires_in": float("inf")},
        {"expires_in": float("nan")},
        {"expires_in": []},
    ],
)
def test_unfit_field_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ExchangeUnavailable, match=f"no usable {next(iter(wrong))}"):
        token_of(response({**GOOD, **wrong}))


@pytest.mark.parametrize("content_type", ["", "text/html", "text/json"])
def test_answer_that_is_no_json(content_type: str) -> None:
    with pytest.raises(ExchangeUnavailable, match="no JSON object"):
        token_of(response(GOOD, content_type=content_type))


@pytest.mark.parametrize("status", [400, 403, 429])
def test_refusal_has_the_code_of_the_server(status: int) -> None:
    fields = {"error": "invalid_target", "error_description": "unknown"}
    with pytest.raises(ExchangeRefused) as caught:
        token_of(response(fields, status=status))
    assert (caught.value.code, caught.value.description) == ("invalid_target", "unknown")


@pytest.mark.parametrize(
    "fields", [{}, [], {"error": 1}, {"error": 'a"b'}, {"error": "a b"}, {"error": "x" * 65}]
)
def test_refusal_without_a_code_is_no_refusal_of_the_exchange(fields: object) -> None:
    with pytest.raises(ExchangeUnavailable, match="status 404 and no error code"):
        token_of(response(fields, status=404))


def test_refusal_of_this_client_is_not_the_applications_fault() -> None:
    with pytest.raises(ExchangeUnavailable, match="refuses this client: invalid_client"):
        token_of(response({"error": "invalid_client"}, status=401))


@pytest.mark.parametrize(
    ("status", "passes"), [(500, True), (503, True), (302, False), (204, False)]
)
def test_only_failures_of_the_server_may_pass(status: int, passes: bool) -> None:  # noqa: FBT001 - a case
    with pytest.raises(ExchangeUnavailable, match=f"{status}") as caught:
        token_of(response(GOOD, status=status))
    assert isinstance(caught.value, PassingFailure) is passes


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.sampled_from([200, 400]),
    st.binary()
    | st.fixed_dictionaries(
        {},
        optional=dict.fromkeys((*GOOD, "expires_in", "scope", "error", "error_description"), JSON),
    ).map(lambda fields: json.dumps(fields).encode()),
)
def test_any_answer_is_a_token_or_an_error(status: int, body: bytes) -> None:
    answer = AuthorizationResponse(status=status, content_type="application/json", body=body)
    try:
        assert token_of(answer).value
    except (ExchangeRefused, ExchangeUnavailable):
        return
