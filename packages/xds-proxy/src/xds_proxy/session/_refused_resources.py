"""Which resources of a response Envoy refused, found in the words of its refusal.

A NACK is of a whole response; only its text tells which resources are at fault. For clusters and
listeners Envoy tries each one, and names each that failed with its reason, as in
`Error adding/updating cluster(s) a: ..., b: ...`. Of other types the text may name a resource, or
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FAR_TOO_SHORT = 3
_ENDS = frozenset(" \t\r\n'\",;()[]{}<>=")
_AFTER = _ENDS | {":", "."}
_MOST = 256
_STARTS = re.compile(r"(?:\(s\)|,|\n|;)[ \t]*|\A[ \t]*")


def refused_resources(names: Iterable[str], error: str) -> Mapping[str, str]:
    """Return the reason for each refused resource; empty if it cannot be told which they are.

    names: the resources of the refused response. error: Envoy's words.
    """
    known = set(names)
    known.discard("")
    if listed := _listed(known, error):
        return listed
    found = [name for name in known if len(name) >= _FAR_TOO_SHORT and _stands_in(name, error)]
    # Of `a/b` and `a/b/c` the longer one is meant, where both would fit.
    found = [name for name in found if not any(name != each and name in each for each in found)]
    if found:
        return dict.fromkeys(sorted(found)[:_MOST], error)
    if len(known) == 1:
        return dict.fromkeys(known, error)
    return {}


def _listed(known: set[str], error: str) -> dict[str, str]:
    """Return what stands behind `NAME: ` in a list of failures."""
    places: list[tuple[int, int, str]] = []
    for start in _STARTS.finditer(error):
        at = start.end()
        # A name may hold colons, and a space does not occur in one that Envoy lists so.
        end = error.find(": ", at)
        while end != -1 and end - at <= 1024:
            if (name := error[at:end]) in known:
                places.append((at, end + 2, name))
                break
            if " " in error[at:end]:
                break
            end = error.find(": ", end + 2)
    reasons: dict[str, str] = {}
    for number, (_, begin, name) in enumerate(places[:_MOST]):
        until = places[number + 1][0] if number + 1 < len(places) else len(error)
        reasons.setdefault(name, error[begin:until].strip(" \t\r\n,;") or error)
    return reasons


def _stands_in(name: str, error: str) -> bool:
    at = error.find(name)
    while at != -1:
        end = at + len(name)
        if (at == 0 or error[at - 1] in _ENDS) and (end == len(error) or error[end] in _AFTER):
            return True
        at = error.find(name, at + 1)
    return False
