"""The wishes of a registry that answers 401: the header WWW-Authenticate of RFC 9110."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_SCHEME = re.compile(r"\s*(?:,\s*)*([A-Za-z][A-Za-z0-9_.-]*)(?:\s++|$)(?!=)")
_PARAMETER = re.compile(
    r"\s*(?:,\s*)*([A-Za-z][A-Za-z0-9_.-]*)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))"
)
_LONGEST = 8192


class Challenge(NamedTuple):
    """One scheme, in lower case, and its parameters."""

    scheme: str
    parameters: Mapping[str, str]


def challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Return the challenges that can be read; what cannot be read ends its header."""
    return tuple(each for header in headers for each in _challenges(header[:_LONGEST]))


def _challenges(header: str) -> list[Challenge]:
    found: list[Challenge] = []
    at = 0
    while (scheme := _SCHEME.match(header, at)) is not None:
        at = scheme.end()
        parameters: dict[str, str] = {}
        while (parameter := _PARAMETER.match(header, at)) is not None:
            name, quoted, bare = parameter.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
            parameters.setdefault(name.lower(), value)
            at = parameter.end()
        found.append(Challenge(scheme.group(1).lower(), parameters))
    return found
