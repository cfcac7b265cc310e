"""A whole configuration whose parts fit together: all objects, oldest first."""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mesh_configfile import Problem
from mesh_discovery.config._file_content import FileContent
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds._foreign_kinds import FOREIGN
from mesh_discovery.config.kinds._registry import AnyKind
from mesh_discovery.config.kinds.mesh_config._spec import MeshConfigSpec

_FEW = 100
"""So many new objects are inserted where they belong; with more, all are sorted."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A whole configuration whose parts fit together."""

    objects: tuple[ConfigObject, ...]
    mesh_config: MeshConfigSpec
    notes: tuple[Problem, ...] = ()
    """Objects and fields that are accepted and have no effect."""
    warnings: tuple[Problem, ...] = ()
    """Fields that have an effect which is hardly meant."""

    @cached_property
    def by_kind(self) -> Mapping[str, tuple[ConfigObject, ...]]:
        """The objects of each kind, by its name with its group, oldest first."""
        found: dict[str, list[ConfigObject]] = {}
        for each in self.objects:
            found.setdefault(f"{each.kind}.{each.group}", []).append(each)
        return {name: tuple(objects) for name, objects in found.items()}

    def of_kind(self, kind: AnyKind) -> tuple[ConfigObject, ...]:
        """Return the objects of a kind, oldest first."""
        return self.by_kind.get(f"{kind.name}.{kind.group}", ())


def snapshot_of(contents: Sequence[FileContent], *, before: Snapshot | None = None) -> Snapshot:
    """Return the snapshot of the files' contents; `before` is the last one, to save sorting."""
    objects = _in_order(
        [item for each in contents for item in each.objects],
        before.objects if before is not None else (),
    )
    mesh_configs = [each.spec for each in objects if isinstance(each.spec, MeshConfigSpec)]
    return Snapshot(
        objects=tuple(objects),
        mesh_config=mesh_configs[0] if mesh_configs else MeshConfigSpec(),
        notes=tuple(_once(note for each in contents for note in each.notes)),
        warnings=tuple(warning for each in contents for warning in each.warnings),
    )


def _once(notes: Iterable[Problem]) -> Iterator[Problem]:
    """Leave out all but the first note of a kind of foreign objects: a dump has hundreds."""
    told: set[str] = set()
    for note in notes:
        if note.message.endswith(FOREIGN):
            if note.message in told:
                continue
            told.add(note.message)
        yield note


def _in_order(objects: list[ConfigObject], before: Sequence[ConfigObject]) -> list[ConfigObject]:
    sorted_before = set(map(id, before))
    new = [each for each in objects if id(each) not in sorted_before]
    if len(new) > _FEW:
        return sorted(objects, key=_age)
    here = set(map(id, objects))
    found = [each for each in before if id(each) in here]
    for each in new:
        insort(found, each, key=_age)
    return found


def _age(item: ConfigObject) -> tuple[str, str, str, str]:
    """Oldest first, then by name and namespace, as Istio breaks ties; undated ones are youngest."""
    return item.created or "9999", item.name, item.namespace, item.kind
