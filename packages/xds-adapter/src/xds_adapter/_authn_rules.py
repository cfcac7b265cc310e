"""Authorization rules that read what `istio_authn` provides, in terms that stock Envoy provides.

Rules name the filter's metadata: `source.principal`, and of a verified token
`request.auth.principal` (issuer and subject with a slash between), `.audiences`, `.presenter` and
`.claims`. The peer's name is also known from its certificate, and claims are in the metadata of
`jwt_authn`.

Messages: envoy/config/rbac/v3/rbac.proto, envoy/type/matcher/v3/{metadata,value,string}.proto,
envoy/extensions/filters/http/jwt_authn/v3/config.proto. How claims are read: Istio's proxy,
src/envoy/http/authn/authn_utils.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from mesh_protowire import (
    WireError,
    bytes_field,
    fields,
    merged,
    number_of,
    string_field,
    text_of,
    value_of,
    values_of,
    varint_field,
)

METADATA: Final = b"istio_authn"

_JWT_AUTHN: Final = "envoy.filters.http.jwt_authn"
JWT_TYPE: Final = "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication"

_MAX_DEPTH = 32
_RULES, _SHADOW_RULES = 1, 2  # of the filter
_POLICIES, _POLICY_PERMISSIONS, _POLICY_PRINCIPALS = 2, 1, 2
_AND, _OR, _ANY, _AUTHENTICATED, _METADATA, _NOT = 1, 2, 3, 4, 7, 8  # of Principal
_FILTER, _PATH, _VALUE, _INVERT = 1, 2, 3, 4  # of MetadataMatcher
_STRING_MATCH, _PRESENT_MATCH, _LIST_MATCH = 3, 5, 6  # of ValueMatcher


class NotTranslatable(Exception):
    """A rule reads something that stock Envoy does not provide."""


class _Kind(Enum):
    """A way to match a string, and its field in StringMatcher."""

    EXACT = 1
    PREFIX = 2
    SUFFIX = 3
    REGEX = 5


class _Match(NamedTuple):
    kind: _Kind
    text: str

    def write(self) -> bytes:
        if self.kind is _Kind.REGEX:
            return bytes_field(5, string_field(2, self.text))
        return bytes_field(self.kind.value, self.text.encode())

    @property
    def is_any(self) -> bool:
        """Whether it matches every text that is not empty."""
        return self == _ANY_TEXT


_ANY_TEXT = _Match(_Kind.REGEX, ".+")


def payload_keys(jwt_filter: bytes) -> tuple[str, ...]:
    """Return under which keys a `JwtAuthentication` puts the claims of tokens. Raises WireError."""
    providers = (merged(entry, 2) or b"" for entry in values_of(jwt_filter, 1))
    return tuple(dict.fromkeys(key for each in providers if (key := text_of(each, 9))))


def translated(rbac: bytes, keys: Sequence[str]) -> bytes:
    """Return an HTTP RBAC filter whose rules read nothing of `istio_authn`.

    keys: those of `payload_keys`. Raises NotTranslatable and WireError.
    """

    def principal(data: bytes) -> bytes:
        return _principal(data, keys, 0)

    def policy(data: bytes) -> bytes:
        if any(METADATA in each for each in values_of(data, _POLICY_PERMISSIONS)):
            raise NotTranslatable("a rule reads istio_authn in a permission")
        return _each(data, _POLICY_PRINCIPALS, principal)

    def entry(data: bytes) -> bytes:
        return _each(data, 2, policy)

    def rules(data: bytes) -> bytes:
        return _each(data, _POLICIES, entry)

    return _each(_each(rbac, _RULES, rules), _SHADOW_RULES, rules)


def _each(data: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """Return a message with each value of a field changed, in its place."""
    parts = []
    last = 0
    for each in fields(data):
        if each.number == number and each.kind == 2:
            parts += [
                data[last : each.begin],
                bytes_field(number, change(data[each.start : each.end])),
            ]
            last = each.end
    return b"".join([*parts, data[last:]])


def _principal(data: bytes, keys: Sequence[str], depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise WireError("rules are nested too deeply")
    if METADATA not in data:
        return data
    if (matcher := merged(data, _METADATA)) is not None:
        return _by_metadata(matcher, keys)

    def inside(principal: bytes) -> bytes:
        return _principal(principal, keys, depth + 1)

    def in_set(several: bytes) -> bytes:
        return _each(several, 1, inside)

    return _each(_each(_each(data, _AND, in_set), _OR, in_set), _NOT, inside)


def _by_metadata(matcher: bytes, keys: Sequence[str]) -> bytes:
    """Return the principal for a matcher of the filter's metadata."""
    path = [text_of(each, 1) for each in values_of(matcher, _PATH)]
    value = merged(matcher, _VALUE) or b""
    if text_of(matcher, _FILTER) != METADATA.decode() or number_of(matcher, _INVERT) or not path:
        raise NotTranslatable("a rule reads istio_authn in an unknown way")
    match path:
        case ["source.principal"]:
            return _peer(_text_match(value))
        case ["request.auth.principal"]:
            return _any_of(_token_principal(_text_match(value), key) for key in keys)
        case ["request.auth.audiences"]:
            return _any_of(_claim([key, "aud"], _text_match(value)) for key in keys)
        case ["request.auth.presenter"]:
            return _any_of(_text([key, "azp"], _text_match(value)) for key in keys)
        case ["request.auth.claims", *claim] if claim:
            items = merged(value, _LIST_MATCH)
            one = merged(items, 1) if items is not None else value
            return _any_of(_claim([key, *claim], _text_match(one or b"")) for key in keys)
        case _:
            raise NotTranslatable(f"a rule reads {path[0]} of istio_authn")


def _text_match(value: bytes) -> _Match:
    if number_of(value, _PRESENT_MATCH):
        return _ANY_TEXT
    text = merged(value, _STRING_MATCH)
    if text is None or number_of(text, 6):  # ignore_case
        raise NotTranslatable("a rule compares istio_authn in an unknown way")
    if (regex := merged(text, _Kind.REGEX.value)) is not None:
        return _Match(_Kind.REGEX, text_of(regex, 2))
    for kind in (_Kind.EXACT, _Kind.PREFIX, _Kind.SUFFIX):
        if value_of(text, kind.value):
            return _Match(kind, text_of(text, kind.value))
    raise NotTranslatable("a rule compares istio_authn in an unknown way")


# -- principals


def _peer(match: _Match) -> bytes:
    """Return the peer whose certificate's name, without its scheme, matches."""
    if match.kind is _Kind.SUFFIX:
        name = match
    elif match.kind is _Kind.REGEX:
        name = _Match(_Kind.REGEX, f"spiffe://(?:{match.text})")
    else:
        name = _Match(match.kind, f"spiffe://{match.text}")
    return bytes_field(_AUTHENTICATED, bytes_field(2, name.write()))


def _token_principal(match: _Match, key: str) -> bytes:
    """Return the bearer of a token whose issuer and subject, with a slash between, match."""
    issuer, subject = [key, "iss"], [key, "sub"]
    slashes = [at for at, character in enumerate(match.text) if character == "/"]
    found: list[bytes] = []
    if match.is_any:
        return _all_of([_text(issuer, match), _text(subject, match)])
    if match.kind is _Kind.REGEX:
        raise NotTranslatable("a rule compares request.auth.principal with a regular expression")
    before = _Kind.SUFFIX if match.kind is _Kind.SUFFIX else _Kind.EXACT
    after = _Kind.PREFIX if match.kind is _Kind.PREFIX else _Kind.EXACT
    # Both parts may have slashes of their own: each one may be that between them.
    for at in slashes:
        first = _not_empty(_Match(before, match.text[:at]))
        rest = _not_empty(_Match(after, match.text[at + 1 :]))
        if first is not None and rest is not None:
            found.append(_all_of([_text(issuer, first), _text(subject, rest)]))
    if match.kind is _Kind.PREFIX:
        found.append(_all_of([_text(issuer, match), _text(subject, _ANY_TEXT)]))
    elif match.kind is _Kind.SUFFIX:
        found.append(_all_of([_text(subject, match), _text(issuer, _ANY_TEXT)]))
    return _any_of(found)


def _not_empty(match: _Match) -> _Match | None:
    """Return how a text that is not empty matches; None if it never does."""
    if match.text:
        return match
    return None if match.kind is _Kind.EXACT else _ANY_TEXT


def _claim(path: Sequence[str], match: _Match) -> bytes:
    """Return the bearer of a token with a claim: a list with such an item, or words of a text."""
    item = bytes_field(_STRING_MATCH, match.write())
    in_list = bytes_field(_LIST_MATCH, bytes_field(1, item))
    return _any_of([_metadata(path, in_list), _text(path, _among_words(match))])


def _among_words(match: _Match) -> _Match:
    if match.is_any:
        return match
    if match.kind is _Kind.REGEX:
        raise NotTranslatable("a rule compares a claim with a regular expression")
    word = re.escape(match.text)
    if match.kind is _Kind.PREFIX:
        word += "[^ ]*"
    elif match.kind is _Kind.SUFFIX:
        word = "[^ ]*" + word
    return _Match(_Kind.REGEX, f"(?:.* )?{word}(?: .*)?")


def _text(path: Sequence[str], match: _Match) -> bytes:
    return _metadata(path, bytes_field(_STRING_MATCH, match.write()))


def _metadata(path: Sequence[str], value: bytes) -> bytes:
    keys = b"".join(bytes_field(_PATH, string_field(1, key)) for key in path)
    matcher = string_field(_FILTER, _JWT_AUTHN) + keys + bytes_field(_VALUE, value)
    return bytes_field(_METADATA, matcher)


def _all_of(principals: Sequence[bytes]) -> bytes:
    return bytes_field(_AND, b"".join(bytes_field(1, each) for each in principals))


def _any_of(principals: Sequence[bytes] | Iterator[bytes]) -> bytes:
    """Return the principals that are one of these; of none, one that never matches."""
    found = list(principals)
    if not found:
        return bytes_field(_NOT, varint_field(_ANY, 1))
    if len(found) == 1:
        return found[0]
    return bytes_field(_OR, b"".join(bytes_field(1, each) for each in found))
