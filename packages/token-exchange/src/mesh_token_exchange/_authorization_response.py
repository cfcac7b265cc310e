"""Decides what an authorization server's response means (RFC 8693 section 2.2)."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mesh_token_exchange._errors import ExchangeRefused, ExchangeUnavailable
from mesh_token_exchange._messages import MAX_LIFETIME_S, AccessToken

_OF_THIS_CLIENT: Final = frozenset(
    {"invalid_client", "unauthorized_client", "unsupported_grant_type"}
)
"""Errors of this client's credentials or of the server's settings, not of the application."""
_JSON: Final = "application/json"
_ERROR_CODE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_WORD = re.compile(r"[\x21-\x7e]{1,256}")
_MAX_SCOPE = 16_384


class PassingFailure(ExchangeUnavailable):
    """A failure that may be gone at the next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationResponse:
    """A response with its whole body.

    content_type: without its parameters.
    """

    status: int
    content_type: str
    body: bytes = field(repr=False)


def token_of(response: AuthorizationResponse) -> AccessToken:
    """Return the token of a response.

    Raises ExchangeRefused, ExchangeUnavailable, or PassingFailure for a status of 500 and more.
    """
    status = response.status
    if status >= 500:
        raise PassingFailure(f"the authorization server answered with status {status}")
    if 400 <= status < 500:
        raise _refusal(response)
    if status != 200:
        raise ExchangeUnavailable(
            f"the authorization server answered with status {status}, not 200"
        )
    fields = _fields(response)
    if fields is None:
        raise ExchangeUnavailable("the authorization server's answer is no JSON object")
    expires_in_s = _expires_in_s(fields.get("expires_in"))
    scope = fields.get("scope")
    if scope is not None and not (isinstance(scope, str) and _is_shown(scope)):
        raise _unfit("scope")
    return AccessToken(
        value=_text(fields, "access_token", _TOKEN),
        issued_token_type=_text(fields, "issued_token_type", _WORD),
        token_type=_text(fields, "token_type", _WORD),
        expires_in_s=expires_in_s,
        scope=scope,
    )


def _refusal(response: AuthorizationResponse) -> ExchangeRefused | ExchangeUnavailable:
    fields = _fields(response) or {}
    code, description = fields.get("error"), fields.get("error_description", "")
    if not isinstance(code, str) or not _ERROR_CODE.fullmatch(code):
        return ExchangeUnavailable(
            f"the authorization server answered with status {response.status} and no error code: "
            "is its URL right?"
        )
    if code in _OF_THIS_CLIENT:
        return ExchangeUnavailable(f"the authorization server refuses this client: {code}")
    return ExchangeRefused(code, description if isinstance(description, str) else "")


def _fields(response: AuthorizationResponse) -> Mapping[str, object] | None:
    if response.content_type.lower() != _JSON:
        return None
    try:
        fields = json.loads(response.body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _text(fields: Mapping[str, object], name: str, form: re.Pattern[str]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise _unfit(name)
    return value


def _expires_in_s(value: object) -> float | None:
    """Return the seconds, which some servers send as text."""
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise _unfit("expires_in")
    return float(min(value, MAX_LIFETIME_S))


def _is_shown(scope: str) -> bool:
    return len(scope) <= _MAX_SCOPE and scope.isprintable()


def _unfit(name: str) -> ExchangeUnavailable:
    return ExchangeUnavailable(f"the authorization server's answer has no usable {name}")
