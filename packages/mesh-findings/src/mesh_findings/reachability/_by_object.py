"""Warnings of objects that are looked at one by one, so that an edit has only its own looked at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from istio_config import ConfigObject
from istio_config.edits import edits
from mesh_configfile import Problem
from mesh_findings.reachability._by_key import Problems, find_again

Found: TypeAlias = Iterator[tuple[ConfigObject, Problem]]


@dataclass(frozen=True, kw_only=True)
class OfObjects:
    """The warnings of some objects, by their keys."""

    objects: Sequence[ConfigObject] = ()
    warnings: Problems = field(default_factory=dict)

    def after(
        self,
        objects: Sequence[ConfigObject],
        find: Callable[[Sequence[ConfigObject]], Found],
    ) -> "OfObjects":
        """Return those of later objects; looked at are those that came, and no others."""
        changed = edits(self.objects, objects)
        if not changed:
            return self
        found: dict[tuple[str, ...], set[Problem]] = {}
        for item, problem in find(changed.come):
            found.setdefault(item.key, set()).add(problem)
        again = (each.key for each in (*changed.gone, *changed.come))
        warnings = find_again(self.warnings, again, lambda key: found.get(key, ()))
        return OfObjects(objects=objects, warnings=warnings)
