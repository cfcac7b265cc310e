"""A watch: the resources of one type that a client wants."""

from __future__ import annotations

from dataclasses import dataclass, field

from xds_server.protocol._names import prefixes_of
from xds_server.protocol._resources_by_name import ResourcesByName


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

    def select_names(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of some names that are wanted; the same set if all are."""
        if self.wildcard or names <= self.names:
            return names
        return frozenset(filter(self.covers, names))

    def prefixes(self) -> tuple[str, ...]:
        """Return the beginnings of resource names that the names with `/*` at their end want."""
        if not self._prefixes:
            self._prefixes.append(prefixes_of(self.names))
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
