"""Makes an `ExchangeRequest` of a form: the checks of RFC 8693 section 2.1 and RFC 6749."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mesh_token_exchange._errors import InvalidRequest
from mesh_token_exchange._messages import TOKEN_EXCHANGE, ExchangeRequest

_NAMES: Final = frozenset(
    {
        "grant_type",
        "subject_token",
        "subject_token_type",
        "scope",
        "requested_token_type",
        "actor_token",
        "actor_token_type",
    }
)
_REPEATABLE: Final = frozenset({"resource", "audience"})
_TOKEN = re.compile(r"[\x21-\x7e]+")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")  # RFC 6749, 3.3
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21\x22\x24-\x7e]+")


def exchange_request(
    pairs: Iterable[tuple[str, str]], *, subject_token_types: Collection[str]
) -> ExchangeRequest:
    """Return the request that a form holds; raises InvalidRequest.

    Parameters without a value count as missing, and unknown ones are ignored (RFC 6749 section
    3.2). Only `resource` and `audience` may be given more than once.
    """
    given = _grouped(pairs)
    grant_type = _single(given, "grant_type")
    if grant_type != TOKEN_EXCHANGE:
        raise InvalidRequest(f"grant_type must be {TOKEN_EXCHANGE}")
    subject_token = _token(given, "subject_token")
    if not subject_token:
        raise InvalidRequest("subject_token is missing or empty")
    subject_token_type = _single(given, "subject_token_type")
    if subject_token_type not in subject_token_types:
        raise InvalidRequest(f"subject_token_type must be {' or '.join(subject_token_types)}")
    actor_token = _token(given, "actor_token")
    actor_token_type = _single(given, "actor_token_type")
    if bool(actor_token) != bool(actor_token_type):
        raise InvalidRequest("actor_token and actor_token_type must be given together")
    scope = _single(given, "scope")
    if scope and not _SCOPE.fullmatch(scope):
        raise InvalidRequest("scope must be words of ASCII, with one space between them")
    resource = given.get("resource", ())
    if not all(_ABSOLUTE_URI.fullmatch(each) for each in resource):
        raise InvalidRequest("resource must be an absolute URI without a fragment")
    return ExchangeRequest(
        subject_token=subject_token,
        subject_token_type=subject_token_type,
        resource=tuple(resource),
        audience=tuple(given.get("audience", ())),
        scope=scope,
        requested_token_type=_single(given, "requested_token_type"),
        actor_token=actor_token,
        actor_token_type=actor_token_type,
    )


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    seen = set()
    for name, value in pairs:
        if name in seen and name not in _REPEATABLE:
            # Other names may hold anything, as a token without its own name.
            shown = name if name in _NAMES else "a parameter"
            raise InvalidRequest(f"{shown} is given more than once")
        seen.add(name)
        if not value.isprintable():
            raise InvalidRequest("a parameter has characters that are not printable")
        if value:
            given.setdefault(name, []).append(value)
    return given


def _single(given: Mapping[str, list[str]], name: str) -> str:
    return given[name][0] if name in given else ""


def _token(given: Mapping[str, list[str]], name: str) -> str:
    token = _single(given, name)
    if token and not _TOKEN.fullmatch(token):
        raise InvalidRequest(f"{name} must be one word of ASCII")
    return token
