"""The differences of two JSON values, by path: the content of a small golden file.

A path is a JSON pointer (RFC 6901) whose steps into a list are the `name` of an element, or its
place in a list of elements without names: `/clusters/web/connect_timeout`. So one changed timeout
is one line, wherever it stands. `differences` and `with_differences` are inverse to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

_NAMES = ("name", "cluster_name")
"""The fields that Envoy's resources are known by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The changes from one value to another, by path."""

    changed: dict[str, Json] = field(default_factory=dict)
    added: dict[str, Json] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    order: dict[str, list[str]] = field(default_factory=dict)
    """The names of a list's elements, where new ones do not come last, in the order of names."""

    def as_dict(self) -> dict[str, object]:
        """Return the parts that hold something."""
        parts = {
            "changed": self.changed,
            "added": self.added,
            "removed": self.removed,
            "order": self.order,
        }
        return {name: part for name, part in parts.items() if part}

    def compare(self, path: str, base: Json, value: Json) -> None:
        """Gather how a value at a path differs."""
        if isinstance(base, dict) and isinstance(value, dict):
            self._compare_fields(path, base, value)
        elif isinstance(base, list) and isinstance(value, list):
            self._compare_lists(path, base, value)
        elif base != value or type(base) is not type(value):
            self.changed[path] = value

    def _compare_lists(self, path: str, base: list[Json], value: list[Json]) -> None:
        old, new = _by_name(base), _by_name(value)
        if old is not None and new is not None:
            self._compare_fields(path, old, new)
            kept = [name for name in old if name in new]
            if list(new) != kept + sorted(new.keys() - old.keys()):
                self.order[path] = list(new)
        elif old is None and len(base) == len(value):
            for place, (one, other) in enumerate(zip(base, value, strict=True)):
                self.compare(_step(path, str(place)), one, other)
        else:
            self.changed[path] = value

    def _compare_fields(
        self, path: str, base: Mapping[str, Json], value: Mapping[str, Json]
    ) -> None:
        for key, each in base.items():
            if key in value:
                self.compare(_step(path, key), each, value[key])
            else:
                self.removed.append(_step(path, key))
        for key, each in value.items():
            if key not in base:
                self.added[_step(path, key)] = each


def differences(base: Json, value: Json) -> Differences:
    """Return the changes from `base` to `value`."""
    found = Differences()
    found.compare("", base, value)
    return found


def with_differences(base: Json, found: Differences) -> Json:
    """Return `base` with these differences."""
    added: dict[str, dict[str, Json]] = {}
    for path, value in found.added.items():
        parent, _, last = path.rpartition("/")
        added.setdefault(parent, {})[last.replace("~1", "/").replace("~0", "~")] = value

    def fields(path: str, base: Mapping[str, Json]) -> dict[str, Json]:
        kept = {
            key: rebuilt(_step(path, key), value)
            for key, value in base.items()
            if _step(path, key) not in found.removed
        }
        return kept | dict(sorted(added.get(path, {}).items()))

    def rebuilt(path: str, base: Json) -> Json:
        if path in found.changed:
            return found.changed[path]
        if isinstance(base, dict):
            return fields(path, base)
        if not isinstance(base, list):
            return base
        if (named := _by_name(base)) is None:
            return [rebuilt(_step(path, str(place)), each) for place, each in enumerate(base)]
        elements = fields(path, named)
        return [elements[name] for name in found.order.get(path, elements)]

    return rebuilt("", base)


def _by_name(elements: list[Json]) -> dict[str, Json] | None:
    """Return the elements of a list by their names, if each has one of its own."""
    found: dict[str, Json] = {}
    for each in elements:
        if not isinstance(each, dict):
            return None
        name = next((each[key] for key in _NAMES if key in each), None)
        if not isinstance(name, str) or name in found:
            return None
        found[name] = each
    return found


def _step(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
