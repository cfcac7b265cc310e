"""The names that clients watch, in sets that the streams of equal clients share.

What is worked out of a set is kept for as long as there is the set, so that it is done for the
first of a thousand clients that ask alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from xds_server.protocol._by_identity import ByIdentity

NO_NAMES: frozenset[str] = frozenset()
"""The one empty set of names: each is 216 bytes, and an idle stream would have half a dozen."""

_shared: WeakKeyDictionary[frozenset[str], ref[frozenset[str]]] = WeakKeyDictionary()


def shared_names(names: frozenset[str]) -> frozenset[str]:
    """Return the set equal to `names` that all streams share.

    A thousand clients of one shape then have one set, and comparing theirs takes no time.
    """
    if not names:
        return NO_NAMES
    known = _shared.get(names)
    same = known() if known is not None else None
    if same is None:
        _shared[names] = ref(names)
        return names
    return same


def absent_names(names: Iterable[str], resources: Collection[Any]) -> frozenset[str]:
    """Return those of some names that are not among resources; it costs what the names are.

    A set's own `difference` looks at every resource.
    """
    return frozenset(name for name in names if name not in resources) or NO_NAMES


class _NamesStep(NamedTuple):
    """The last result of `names_after` for some names, with its arguments."""

    come: frozenset[str]
    gone: frozenset[str]
    after: ref[frozenset[str]]


_steps: ByIdentity[frozenset[str], _NamesStep] = ByIdentity()


def names_after(
    names: frozenset[str], come: frozenset[str], gone: frozenset[str]
) -> frozenset[str]:
    """Return `names` without `gone` and with `come`, shared as by `shared_names`.

    Of a thousand clients that ask alike, it is worked out for the first.
    """
    known = _steps.get(names)
    if known is not None and known.come == come and known.gone == gone:
        after = known.after()
        if after is not None:
            return after
    after = shared_names((names - gone) | come)
    if names:
        _steps.keep(names, _NamesStep(come, gone, ref(after)))
    if _prefixes.get(names) == () and not _looked_for(come):
        _prefixes.keep(after, ())
    return after


_prefixes: ByIdentity[frozenset[str], tuple[str, ...]] = ByIdentity()


def prefixes_of(names: frozenset[str]) -> tuple[str, ...]:
    """Return the beginnings of resource names that the names with `/*` at their end want."""
    found = _prefixes.get(names)
    if found is None:
        found = _looked_for(names)
        _prefixes.keep(names, found)
    return found


_longest: ByIdentity[frozenset[str], int] = ByIdentity()


def longest_of(names: frozenset[str]) -> int:
    """Return the length of the longest name; looked for once in a set that streams share."""
    if not names:
        return 0
    found = _longest.get(names)
    if found is None:
        found = max(map(len, names))
        _longest.keep(names, found)
    return found


def _looked_for(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name[:-1] for name in names if name.endswith("/*"))
