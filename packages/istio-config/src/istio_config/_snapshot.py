"""A whole configuration whose parts fit together: all objects, oldest first."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from istio_config._file_content import FileContent
from istio_config._objects import ConfigObject
from istio_config.edits import edits
from istio_config.kinds.mesh_config import MESH_CONFIG, MeshConfigSpec
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.unread_kinds import FOREIGN
from mesh_configfile import Problem

_SENIORITY = attrgetter("seniority")
_FEW = 100
"""The most new objects that are inserted where they belong; with more, all are sorted."""


class SnapshotEdit(NamedTuple):
    """The objects by which a snapshot differs from one before; one that was edited is in both."""

    before: object
    """The identity of the one before."""
    gone: tuple[ConfigObject, ...]
    come: tuple[ConfigObject, ...]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A whole configuration whose parts fit together."""

    objects: tuple[ConfigObject, ...]
    mesh_config: MeshConfigSpec
    notes: tuple[Problem, ...] = ()
    """Objects and fields that are accepted and have no effect."""
    warnings: tuple[Problem, ...] = ()
    """Fields that have an effect which is probably not meant."""

    by_kind: Mapping[str, tuple[ConfigObject, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The objects of each kind, by its name with its group, oldest first.

    A kind of which no object changed has the tuple that it had in the snapshot before.
    """

    edit: SnapshotEdit | None = field(default=None, compare=False, repr=False)
    """The edit of the snapshot before, where it is known without comparing all objects."""
    identity: object = field(default_factory=object, compare=False, repr=False)
    """Equal for snapshots of the same objects only. Who remembers it keeps no object alive."""

    def edit_since(self, identity: object) -> SnapshotEdit | None:
        """Return the edit from another snapshot to this one, if that is all that differs."""
        return self.edit if self.edit is not None and self.edit.before == identity else None

    def of_kind(self, kind: AnyKind) -> tuple[ConfigObject, ...]:
        """Return the objects of a kind, oldest first."""
        return self.by_kind.get(_kind_name(kind), ())


def snapshot_of(contents: Sequence[FileContent], *, before: Snapshot | None = None) -> Snapshot:
    """Return the snapshot of the files' contents.

    before: the last one, whose order is taken over for the objects that are still there.
    """
    given = [item for each in contents for item in each.objects]
    objects, by_kind = _in_order(given, before)
    return Snapshot(
        objects=objects,
        by_kind=by_kind,
        mesh_config=_mesh_config(by_kind),
        notes=tuple(_once(note for each in contents for note in each.notes)),
        warnings=tuple(warning for each in contents for warning in each.warnings),
    )


def edited_snapshot(
    before: Snapshot, gone: Sequence[FileContent], come: Sequence[FileContent]
) -> Snapshot | None:
    """Return the snapshot after some files were edited; the cost is that of these files.

    gone: what they held before. come: what they hold now. None if all files have to be compared.
    """
    if _notes_and_warnings(gone) != _notes_and_warnings(come):
        return None
    changed = edits(
        [item for each in gone for item in each.objects],
        [item for each in come for item in each.objects],
    )
    if len(changed.come) > _FEW:
        return None
    objects, by_kind = _with_edits(before, changed.gone, changed.come)
    return replace(
        before,
        objects=objects,
        by_kind=by_kind,
        mesh_config=_mesh_config(by_kind),
        edit=SnapshotEdit(before.identity, tuple(changed.gone), tuple(changed.come)),
        identity=object(),
    )


def _notes_and_warnings(contents: Iterable[FileContent]) -> list[Problem]:
    """Return the notes and warnings of files, which a snapshot has."""
    return [problem for each in contents for problem in (*each.notes, *each.warnings)]


def with_objects(snapshot: Snapshot, further: Sequence[ConfigObject]) -> Snapshot:
    """Return the snapshot with further objects."""
    if not further:
        return snapshot
    objects, by_kind = _with_edits(snapshot, (), further)
    edit, added = snapshot.edit, tuple(further)
    return replace(
        snapshot,
        objects=objects,
        by_kind=by_kind,
        edit=edit._replace(before=(edit.before, added)) if edit is not None else None,
        identity=(snapshot.identity, added),
    )


def _mesh_config(by_kind: Mapping[str, tuple[ConfigObject, ...]]) -> MeshConfigSpec:
    for each in by_kind.get(_kind_name(MESH_CONFIG), ()):
        if isinstance(each.spec, MeshConfigSpec):
            return each.spec
    return MeshConfigSpec()


def _once(notes: Iterable[Problem]) -> Iterator[Problem]:
    """Yield notes; those about foreign objects once a kind, as a dump of a cluster has hundreds."""
    seen: set[str] = set()
    for note in notes:
        if note.message.endswith(FOREIGN):
            if note.message in seen:
                continue
            seen.add(note.message)
        yield note


_Kinds = Mapping[str, tuple[ConfigObject, ...]]


def _in_order(
    objects: list[ConfigObject], before: Snapshot | None
) -> tuple[tuple[ConfigObject, ...], _Kinds]:
    """Return the objects, oldest first, all and by kind."""
    known = set(map(id, before.objects)) if before is not None else set()
    new = [each for each in objects if id(each) not in known]
    if before is None or len(new) > _FEW:
        found = sorted(objects, key=_SENIORITY)
        return tuple(found), _by_kind(found)
    here = set(map(id, objects))
    gone = [each for each in before.objects if id(each) not in here]
    return _with_edits(before, gone, new)


def _with_edits(
    before: Snapshot, gone: Sequence[ConfigObject], come: Sequence[ConfigObject]
) -> tuple[tuple[ConfigObject, ...], _Kinds]:
    """Return the objects of a snapshot after an edit, all and by kind."""
    by_kind = dict(before.by_kind)
    for name in {_kind_name(each) for each in (*gone, *come)}:
        by_kind[name] = _edited(
            before.by_kind.get(name, ()),
            [each for each in gone if _kind_name(each) == name],
            [each for each in come if _kind_name(each) == name],
        )
    return _edited(before.objects, gone, come), by_kind


def _edited(
    before: Sequence[ConfigObject], gone: Sequence[ConfigObject], come: Sequence[ConfigObject]
) -> tuple[ConfigObject, ...]:
    """Return objects, oldest first, after an edit."""
    if len(gone) > _FEW:
        left = set(map(id, gone))
        found = [each for each in before if id(each) not in left]
    else:
        found = list(before)
        for each in gone:
            at = bisect_left(found, each.seniority, key=_SENIORITY)
            while found[at] is not each:
                at += 1
            del found[at]
    for each in come:
        insort(found, each, key=_SENIORITY)
    return tuple(found)


def _by_kind(objects: Iterable[ConfigObject]) -> _Kinds:
    found: dict[str, list[ConfigObject]] = {}
    for each in objects:
        found.setdefault(_kind_name(each), []).append(each)
    return {name: tuple(items) for name, items in found.items()}


def _kind_name(item: ConfigObject | AnyKind) -> str:
    name = item.kind if isinstance(item, ConfigObject) else item.name
    return f"{name}.{item.group}"
