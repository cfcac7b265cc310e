"""Any bytes as a request's form, and as what an authorization server answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mesh_token_exchange import JWT, ExchangeRefused, ExchangeUnavailable
from mesh_token_exchange._authorization_response import AuthorizationResponse, token_of
from mesh_token_exchange._errors import InvalidRequest
from mesh_token_exchange._form import parse_form
from mesh_token_exchange._request import exchange_request

_SECRET = "s3cret-subject-token"  # noqa: S105 - looked for in errors


def check(data: bytes) -> None:
    """Each is read, or refused with its own error, in which no token is."""
    kind, content = data[:1], data[1:]
    if kind == b"f":
        try:
            pairs = parse_form(content, max_parameters=32)
            exchange_request(pairs, subject_token_types={JWT})
        except InvalidRequest as error:
            assert _SECRET not in str(error)
        return
    status = 100 + (content[0] * 2 if content else 0)
    answer = AuthorizationResponse(status=status, content_type="application/json", body=content[1:])
    with suppress(ExchangeRefused, ExchangeUnavailable):
        token = token_of(answer)
        assert token.value.isascii()


def originals() -> Iterator[bytes]:
    """A good request and good and bad answers."""
    grant = b"urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
    kind = JWT.replace(":", "%3A").encode()
    yield (
        b"fgrant_type=" + grant + b"&subject_token=" + _SECRET.encode() + b"&subject_token_type="
        b"" + kind + b"&resource=https%3A%2F%2Fa%2Fb&scope=a+b&audience=x"
    )
    ok, refused, failed = bytes([50]), bytes([150]), bytes([200])
    yield (
        b"a"
        + ok
        + b'{"access_token":"x","issued_token_type":"urn:ietf:params:oauth:token-type:jwt",'
        b'"token_type":"Bearer","expires_in":3600,"scope":"a b"}'
    )
    yield b"a" + ok + b'{"access_token":"x","expires_in":' + b"9" * 400 + b"}"
    yield b"a" + refused + b'{"error":"invalid_request","error_description":"no"}'
    yield b"a" + failed + b"oops"
