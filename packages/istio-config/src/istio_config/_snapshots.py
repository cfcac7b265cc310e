"""Builds the snapshots of a source one after another: where little changed, from the last one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from istio_config._ages import aged, dated_namespaces, dates_without_effect, decides, seniority_of
from istio_config._file_content import FileContent
from istio_config._seniority import BY_NAME
from istio_config._snapshot import Snapshot, edited_snapshot, snapshot_of
from mesh_configfile import Problem


class Snapshots:
    """The snapshots of one source; all of its namespaces decide the ages of objects (`_ages`)."""

    def __init__(self, *, believe_timestamps: bool = False) -> None:
        """believe_timestamps: `creationTimestamp` counts between namespaces too."""
        self._believe_timestamps = believe_timestamps
        self._last: Snapshot | None = None
        self._seniority = BY_NAME
        self._aged: dict[int, tuple[FileContent, FileContent]] = {}
        """By the id of a content: the content, and the same with the ages in the snapshot."""
        self._note: Problem | None = None
        """The note that dates have no effect between namespaces, if the snapshot has it."""

    def edited(self, gone: Sequence[FileContent], come: Sequence[FileContent]) -> Snapshot | None:
        """Return the snapshot after an edit; the cost is that of the contents that were edited.

        None if all contents have to be compared, by `build`.
        """
        if self._last is None or decides((*gone, *come)) or self._note_may_differ(gone, come):
            return None
        edited = edited_snapshot(
            self._last, [*map(self._with_ages, gone)], [*map(self._with_ages, come)]
        )
        if edited is not None:
            for each in gone:
                self._aged.pop(id(each), None)
            self._last = edited
        return edited

    def build(self, contents: Iterable[FileContent]) -> Snapshot:
        """Return the snapshot of these contents."""
        contents = list(contents)
        seniority = seniority_of(contents, believes=self._believe_timestamps)
        known, self._aged = self._aged if seniority == self._seniority else {}, {}
        self._seniority = seniority
        for each in contents:
            self._aged[id(each)] = known.get(id(each)) or (each, aged(each, seniority))
        found = snapshot_of([self._with_ages(each) for each in contents], before=self._last)
        self._note = None if self._believe_timestamps else dates_without_effect(contents)
        if self._note is not None:
            found = replace(found, notes=(*found.notes, self._note))
        self._last = found
        return found

    def _note_may_differ(self, gone: Sequence[FileContent], come: Sequence[FileContent]) -> bool:
        """Return whether an edit may add or remove the note that dates have no effect."""
        if self._believe_timestamps:
            return False
        dated = dated_namespaces(come)
        return bool(dated) if self._note is None else not dated_namespaces(gone) <= dated

    def _with_ages(self, content: FileContent) -> FileContent:
        """Return a content with the ages that its objects have in the snapshot."""
        known = self._aged.get(id(content))
        if known is None or known[0] is not content:
            known = self._aged[id(content)] = content, aged(content, self._seniority)
        return known[1]
