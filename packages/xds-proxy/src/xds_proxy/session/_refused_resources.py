"""Which resources of a response Envoy refused, found in the words of its refusal.

A NACK is of a whole response; only its text says which resources are at fault. For clusters and
listeners Envoy tries each one, and names each that failed with its reason, as in
`Error adding/updating cluster(s) a: ..., b: ...`. Of other types the text may name a resource, or
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xds_proxy.protocol._shown import shorten

_FAR_TOO_SHORT = 3
_ENDS = frozenset(" \t\r\n'\",;()[]{}<>=")
_AFTER = _ENDS | {":", "."}
_MOST = 256
_LONGEST = 1 << 18
_LONGEST_NAME = 1026
_MOST_WORK = 10_000_000
"""Names times characters: that much is searched in some milliseconds."""
_WORDS = re.compile(r"[^ \t\r\n'\",;()\[\]{}<>=]+")
_STARTS = re.compile(r"(?:\(s\)|,|\n|;)[ \t]*|\A[ \t]*")


def refused_resources(names: Iterable[str], error: str) -> Mapping[str, str]:
    """Return the reason for each refused resource; empty if it is not known which they are.

    names: the resources of the refused response. error: Envoy's words.
    """
    known = set(names)
    known.discard("")
    if len(known) > 1 and len(error) > _LONGEST:
        return {}  # what is left out of it here would count as accepted
    if listed := _read_list(known, error):
        return listed
    shown = shorten(error)
    found = [
        name
        for name in _perhaps_in(known, error)
        if len(name) >= _FAR_TOO_SHORT and _stands_in(name, error)
    ]
    if len(found) <= _MOST:
        # Of `a/b` and `a/b/c` the longer one is meant, where both would fit.
        found = [name for name in found if not any(name != each and name in each for each in found)]
    if found:
        return dict.fromkeys(sorted(found)[:_MOST], shown)
    if len(known) == 1:
        return dict.fromkeys(known, shown)
    return {}


def _perhaps_in(known: set[str], error: str) -> Iterable[str]:
    """Return the names to search for; of very many, those that are a word of the text."""
    if len(known) * len(error) <= _MOST_WORK:
        return known
    words = set(_WORDS.findall(error))
    return known & (words | {word.rstrip(":.") for word in words})


def _read_list(known: set[str], error: str) -> dict[str, str]:
    """Return what stands behind `NAME: ` in a list of failures."""
    places: list[tuple[int, int, str]] = []
    for start in _STARTS.finditer(error):
        at = start.end()
        # A name may hold colons, and a space does not occur in one that Envoy lists so.
        end = error.find(": ", at, at + _LONGEST_NAME)
        while end != -1:
            if (name := error[at:end]) in known:
                places.append((at, end + 2, name))
                break
            if " " in error[at:end]:
                break
            end = error.find(": ", end + 2, at + _LONGEST_NAME)
    reasons: dict[str, str] = {}
    for number, (_, begin, name) in enumerate(places):
        until = places[number + 1][0] if number + 1 < len(places) else len(error)
        reasons.setdefault(name, shorten(error[begin:until].strip(" \t\r\n,;") or error))
    return reasons


def _stands_in(name: str, error: str) -> bool:
    at = error.find(name)
    while at != -1:
        end = at + len(name)
        if (at == 0 or error[at - 1] in _ENDS) and (end == len(error) or error[end] in _AFTER):
            return True
        at = error.find(name, at + 1)
    return False
