"""A watch: the resources of one type that a client wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import ref

from xds_server.protocol._resources_by_name import ResourcesByName


class _OfNames(NamedTuple):
    names: ref[frozenset[str]]
    prefixes: tuple[str, ...]


_prefixes: dict[int, _OfNames] = {}
"""The prefixes of each set of names, by its identity: a thousand clients may watch one set."""


def _forgetter(key: int) -> Callable[[ref[frozenset[str]]], None]:
    def forget(gone: ref[frozenset[str]]) -> None:
        known = _prefixes.get(key)
        if known is not None and known.names is gone:
            del _prefixes[key]

    return forget


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The resources of one type that a client wants: all (`wildcard`), and those of these names."""

    type_url: str
    names: frozenset[str] = frozenset()
    wildcard: bool = False

    # Holds the result of `prefixes` after its first call, as the names may be many.
    _prefixes: list[tuple[str, ...]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def covers(self, name: str) -> bool:
        """Return whether a resource of this name is wanted; the name `x/*` wants all below x/."""
        return (
            self.wildcard
            or name in self.names
            or (bool(prefixes := self.prefixes()) and name.startswith(prefixes))
        )

    def covered(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of some names that are wanted; the same set if all are."""
        if self.wildcard or names <= self.names:
            return names
        return frozenset(filter(self.covers, names))

    def prefixes(self) -> tuple[str, ...]:
        """Return the beginnings of resource names that the names with `/*` at their end want."""
        if not self._prefixes:
            known = _prefixes.get(id(self.names))
            if known is None or known.names() is not self.names:
                found = tuple(name[:-1] for name in self.names if name.endswith("/*"))
                known = _OfNames(ref(self.names, _forgetter(id(self.names))), found)
                _prefixes[id(self.names)] = known
            self._prefixes.append(known.prefixes)
        return self._prefixes[0]

    def select(self, resources: ResourcesByName) -> ResourcesByName:
        """Return the resources that are wanted; the same mapping if all are.

        Takes time in proportion to the names or the resources, whichever are fewer; with
        prefixes, to the resources.
        """
        if self.wildcard:
            return resources
        if len(resources) <= len(self.names) or self.prefixes():
            some = ResourcesByName((name, r) for name, r in resources.items() if self.covers(name))
        else:
            some = ResourcesByName(
                (name, resources[name]) for name in self.names if name in resources
            )
        return resources if len(some) == len(resources) else some
