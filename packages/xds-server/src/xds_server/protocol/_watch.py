"""What a client wants of one type."""

from __future__ import annotations

from dataclasses import dataclass, field

from xds_server.protocol._resources_by_name import ResourcesByName


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a client wants of one type: all of it (`wildcard`) and these names."""

    type_url: str
    names: frozenset[str] = frozenset()
    wildcard: bool = False

    # The names that end in "/*", without the star; found on first use.
    _prefixes: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def covers(self, name: str) -> bool:
        """Whether a resource of this name is wanted; `x/*` among the names wants all below x/."""
        return (
            self.wildcard
            or name in self.names
            or (bool(prefixes := self.prefixes()) and name.startswith(prefixes))
        )

    def prefixes(self) -> tuple[str, ...]:
        """What the names that stand for more than themselves stand for all of."""
        prefixes = self._prefixes
        if prefixes is None:
            prefixes = tuple(name[:-1] for name in self.names if name.endswith("/*"))
            object.__setattr__(self, "_prefixes", prefixes)
        return prefixes

    def select(self, resources: ResourcesByName) -> ResourcesByName:
        """Those of `resources` that are wanted; the same mapping if all are.

        Takes time in proportion to the names or the resources, whichever are fewer; with
        prefixes, to the resources.
        """
        if self.wildcard:
            return resources
        if self.prefixes() or len(resources) <= len(self.names):
            some = ResourcesByName((name, r) for name, r in resources.items() if self.covers(name))
        else:
            some = ResourcesByName(
                (name, resources[name]) for name in self.names if name in resources
            )
        return resources if len(some) == len(resources) else some
