"""Several sources of objects as one: files and a program's objects, or those of several clusters.

Where two sources have an object of one key, the earlier source's is served, as in Istio's aggregate
store (pilot/pkg/config/aggregate), and the other is a problem that the status shows. The order of
sources decides, and not who came first: a restarted control plane serves the same.
"""

import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from typing import NamedTuple

from istio_config import (
    ConfigObject,
    FileContent,
    ObjectKey,
    Snapshot,
    Snapshots,
    duplicate,
    object_key,
    snapshot_of,
)
from istio_config.edits import edits
from mesh_discovery._limited_lines import first_of
from mesh_discovery.sources._reading import Reading, WrongFile
from mesh_discovery.sources._source import ObjectSource, OnChange

log = logging.getLogger(__name__)


class _Part:
    """The objects of one source, each as a content of its own."""

    def __init__(self) -> None:
        self.snapshot = snapshot_of(())
        self.by_key: dict[ObjectKey, FileContent] = {}

    @property
    def remarks(self) -> FileContent:
        """The notes and warnings of the source; they are of all its objects together."""
        return FileContent(notes=self.snapshot.notes, warnings=self.snapshot.warnings)

    def apply(self, change: "_Change") -> None:
        """Have the objects after a change."""
        for each in change.gone:
            self.by_key.pop(_key(each), None)
        for each in change.come:
            self.by_key[_key(each)] = FileContent(objects=(each,))


class _Change(NamedTuple):
    """The objects by which two snapshots of a source differ, and whether its remarks do."""

    gone: Sequence[ConfigObject] = ()
    come: Sequence[ConfigObject] = ()
    remarks_differ: bool = False


class MergedObjects:
    """The objects of several sources. Their ages are those of one configuration."""

    def __init__(
        self, sources: Sequence[ObjectSource], *, believe_timestamps: bool = False
    ) -> None:
        """sources: in order of precedence.

        believe_timestamps: `creationTimestamp` counts between namespaces, whatever a source says.
        """
        self._sources = tuple(sources)
        self._parts = tuple(_Part() for _ in self._sources)
        self._snapshots = Snapshots(believe_timestamps=believe_timestamps)
        self._snapshot: Snapshot | None = None
        self._hidden: dict[ObjectKey, tuple[WrongFile, ...]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The objects of all sources now; it costs what was edited since the last call."""
        changes = []
        for part, source in zip(self._parts, self._sources, strict=True):
            before, part.snapshot = part.snapshot, source.snapshot
            changes.append(_change(before, part.snapshot))
        if self._snapshot is None or any(map(any, changes)):
            self._snapshot = self._merged(changes)
        return self._snapshot

    @property
    def reading(self) -> Reading:
        """The outcomes of all sources, and the objects that an earlier source has, too."""
        found = [each.reading for each in self._sources]
        return Reading(
            looked_at=max(each.looked_at for each in found),
            wrong=tuple(chain(*(each.wrong for each in found), *self._hidden.values())),
            files=tuple(chain.from_iterable(each.files for each in found)),
        )

    async def is_current(self) -> bool:
        """Return whether all sources are."""
        for each in self._sources:
            if not await each.is_current():
                return False
        return True

    @asynccontextmanager
    async def following(self, on_change: OnChange) -> AsyncIterator[None]:
        """Follow all sources while the block runs."""
        async with AsyncExitStack() as stack:
            for each in self._sources:
                await stack.enter_async_context(each.following(on_change))
            yield

    def _merged(self, changes: Sequence[_Change]) -> Snapshot:
        keys = dict.fromkeys(
            _key(item) for change in changes for item in (*change.gone, *change.come)
        )
        before = {key: next(self._holders(key), None) for key in keys}
        for part, change in zip(self._parts, changes, strict=True):
            part.apply(change)
        served = {key: next(self._holders(key), None) for key in keys}
        self._note_hidden(keys)
        gone = [old for key, old in before.items() if old is not None and old is not served[key]]
        come = [new for key, new in served.items() if new is not None and new is not before[key]]
        edited = None
        if not any(each.remarks_differ for each in changes):
            edited = self._snapshots.edited(gone, come)
        return edited if edited is not None else self._snapshots.build(self._all())

    def _holders(self, key: ObjectKey) -> Iterator[FileContent]:
        """Yield the contents with the object of a key: that which is served, then the hidden."""
        return (part.by_key[key] for part in self._parts if key in part.by_key)

    def _all(self) -> Iterator[FileContent]:
        taken: dict[ObjectKey, FileContent] = {}
        for part in self._parts:
            yield part.remarks
            taken = {**part.by_key, **taken}
        yield from taken.values()

    def _note_hidden(self, keys: Mapping[ObjectKey, None]) -> None:
        """Keep the problems of objects that an earlier source has; log each once."""
        new: list[WrongFile] = []
        for key in keys:
            known = self._hidden.pop(key, ())
            items = [each.objects[0] for each in self._holders(key)]
            hidden = tuple(_wrong(each, items[0], known) for each in items[1:])
            if hidden:
                self._hidden[key] = hidden
                new += [each for each in hidden if each not in known]
        for each in first_of(new, "configuration object is in two sources"):
            log.error(
                "configuration object is in two sources, that of the earlier one is served",
                extra={"problem": str(each.problems[0])},
            )


def _change(before: Snapshot, now: Snapshot) -> _Change:
    if now.identity == before.identity:
        return _Change()
    edit = now.edit_since(before.identity)
    if edit is not None:  # nothing but these objects differs
        return _Change(edit.gone, edit.come)
    gone, come = edits(before.objects, now.objects)
    differ = (now.notes, now.warnings) != (before.notes, before.warnings)
    return _Change(gone, come, differ)


def _key(item: ConfigObject) -> ObjectKey:
    """Return the key that one source has; MeshConfig and MeshNetworks are one for all clusters."""
    kind, namespace, name, cluster = object_key(item)
    return kind, namespace, name, cluster if name else ""


def _wrong(item: ConfigObject, first: ConfigObject, known: Sequence[WrongFile]) -> WrongFile:
    problem = duplicate(item, first)
    since = next((each.since for each in known if each.file == problem.file), time.time())
    return WrongFile(file=problem.file, problems=(problem,), since=since)
