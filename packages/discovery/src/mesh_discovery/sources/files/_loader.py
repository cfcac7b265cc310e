"""A directory of YAML files as one snapshot, in which a wrong file has its last good content.

Files that have not changed are neither read nor parsed again, and where it knows which entries of
directories changed, no others are looked at. Nothing here is asynchronous: `load` is called in a
thread.
"""

import hashlib
import os
import time
from bisect import bisect
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from istio_config import FileContent, FileReader, Snapshot, Snapshots, Tree, read_tree, unreadable
from istio_config.kinds.mesh_config import MESH_CONFIG
from istio_config.kinds.mesh_networks import MESH_NETWORKS
from istio_config.kinds.registry import AnyKind
from mesh_configfile import MAX_BYTES, Problem
from mesh_discovery.sources._reading import WrongFile
from mesh_discovery.sources.files._last_good import FoundFile, ServedFiles, serve_last_good
from mesh_filewatch import read_bytes

_STAMPED_S = 3.0
"""A file written less than this ago may be written again without its stamp telling: file systems
count in steps, of some milliseconds or of two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The result of reading the files."""

    snapshot: Snapshot
    """The content that can be served; a wrong file has its last good one, if it ever had any."""
    wrong: tuple[WrongFile, ...]
    files: tuple[str, ...]
    directories: frozenset[Path]
    """Every real directory that holds some of the files: the directories to watch."""
    whole: bool = True
    """Whether every directory was listed anew, and not only what was reported as changed read."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every mistake in the files, in order."""
        return tuple(sorted({problem for each in self.wrong for problem in each.problems}))


Entry = tuple[str, str]
"""A directory, without links in its path, and a name in it."""
Reached = tuple[int, Path | None]
_Stamp = tuple[int, int, int, int, int]
_Status = tuple[int, int, int]
"""Inode, time of the last change, and size."""


@dataclass(frozen=True, slots=True)
class _File:
    seen: FoundFile
    status: _Status | None
    """None when there is no file to be had."""
    stamp: _Stamp | None
    """Differs when the file changed; None while a change might not show in it."""
    reader: FileReader


def _read(path: Path) -> bytes:
    return read_bytes(path, max_bytes=MAX_BYTES)


class ConfigLoader:
    """Reads the same directory again and again, and remembers the last good contents."""

    def __init__(
        self,
        directory: Path,
        *,
        mesh_config: Path | None = None,
        mesh_networks: Path | None = None,
        allow_unsupported: bool = False,
        believe_timestamps: bool = False,
        keep_lines: bool = False,
        clock: Callable[[], float] = time.time,
        read: Callable[[Path], bytes] = _read,
    ) -> None:
        """Read below `directory`.

        mesh_config: a file beside it that holds the mesh config.
        mesh_networks: one that holds the networks of the mesh.
        allow_unsupported: fields that only Istio has are accepted and noted, instead of
            being mistakes.
        believe_timestamps: `creationTimestamp` counts between namespaces too.
        keep_lines: objects know the lines of all their fields, which takes memory.
        clock: returns Unix seconds, as in the files' times.
        read: returns a file's bytes; raises OSError.
        """
        self.directory = directory
        self._single: Mapping[str, AnyKind] = {
            str(path): kind
            for path, kind in ((mesh_config, MESH_CONFIG), (mesh_networks, MESH_NETWORKS))
            if path is not None
        }
        """The files of which each is one object, and of which kind."""
        self._allow_unsupported = allow_unsupported
        self._keep_lines = keep_lines
        self._clock = clock
        self._read = read
        self._tree: Tree | None = None
        self._unlisted: tuple[Problem, ...] = ()
        self._known: dict[str, _File] = {}
        self._seen: dict[str, FoundFile] = {}
        """What was found of each file, and the directories that can't be listed."""
        self._served = ServedFiles()
        self._snapshots = Snapshots(believe_timestamps=believe_timestamps)
        self._reached: tuple[int, str | None] = (0, str(directory))
        self.right_objects = self.wrong_files = 0
        """How many objects were read and found right, and how many files wrong, so far."""

    @property
    def reached(self) -> "Reached":
        """How many paths the reading under way has come to, and the newest of them.

        None instead of the path while the file system is not waited for, as when files that were
        read are parsed, which takes seconds if they are large.
        """
        number, path = self._reached
        return number, Path(path) if path is not None else None

    def _reach(self, path: str) -> None:
        self._reached = (self._reached[0] + 1, path)

    def _work(self) -> None:
        self._reached = (self._reached[0] + 1, None)

    def load(self, changed: Iterable[Entry] | None = None) -> Load:
        """Read the files that have changed; errors of the file system become problems.

        changed: the entries of the directories that may have changed since the last load; None:
        any, so that each directory is listed and each file looked at.
        """
        changed_files = (
            None if changed is None or self._tree is None else self._tree.files_of(changed)
        )
        if changed_files is None:
            whole = True
            self._look_at_all()
        else:
            whole = False
            self._look_at(changed_files)
        self._work()
        unlisted = {each.file: FileContent(problems=(each,)) for each in self._unlisted}
        before = self._served
        self._served = serve_last_good(
            before, self._seen, now=self._clock(), unlisted=unlisted, changed=changed_files
        )
        return Load(
            snapshot=self._next_snapshot(before, changed_files),
            wrong=tuple(self._served.wrong.values()),
            files=tuple(self._known),
            directories=frozenset(self._tree.watched) if self._tree is not None else frozenset(),
            whole=whole,
        )

    def _next_snapshot(
        self, before: ServedFiles, changed_files: Mapping[str, bool] | None
    ) -> Snapshot:
        """Return the snapshot of what is served; of files that did not change, what it was."""
        served = self._served
        if changed_files is not None and not (before.wrong or served.wrong):
            gone = [before.served[path].content for path in changed_files if path in before.served]
            come = [served.served[path].content for path in changed_files if path in served.served]
            edited = self._snapshots.edited(gone, come)
            if edited is not None:
                return edited
        return self._snapshots.build(each.content for each in served.served.values())

    def _look_at_all(self) -> None:
        unlisted: list[Problem] = []
        self._tree = read_tree(
            self.directory,
            further=map(Path, self._single),
            problems=unlisted,
            reach=self._reach,
        )
        self._unlisted = tuple(unlisted)
        self._known = {path: self._look(path) for path in self._tree.files}
        self._seen = self._all_seen()

    def _all_seen(self) -> dict[str, FoundFile]:
        found = {
            each.file: FoundFile(content=FileContent(problems=(each,))) for each in self._unlisted
        }
        return found | {path: file.seen for path, file in self._known.items()}

    def _look_at(self, files: Mapping[str, bool]) -> None:
        """Look at these files alone, which are there or not."""
        known = self._known
        for path, exists in files.items():
            if not exists:
                known = {other: file for other, file in known.items() if other != path}
            elif path in known:
                # In its place, as `seen` may be reading in another thread.
                known[path] = self._look(path)
                self._seen[path] = known[path].seen
            else:
                known = _inserted(known, path, self._look(path), last=self._single)
        if known is not self._known:
            self._known = known
            self._seen = self._all_seen()

    def contents(self) -> tuple[FileContent, ...]:
        """Return what was found in each file, right or wrong, at the last load."""
        return tuple(each.content for each in self._seen.values())

    def seen(self) -> Mapping[str, _Status]:
        """Return what the files were like when they were loaded last, as `signature` does."""
        found = dict.fromkeys(self._tree.directories, _DIRECTORY) if self._tree is not None else {}
        for path, file in self._known.items():
            if file.status is not None:
                found[path] = file.status
        return found

    def signature(self) -> Mapping[str, _Status]:
        """Summarise the files cheaply, to find changes without a file event."""
        tree = read_tree(
            self.directory, further=map(Path, self._single), problems=[], reach=self._reach
        )
        # An empty directory, too, has to be watched from when it is there.
        found = dict.fromkeys(tree.directories, _DIRECTORY)
        for path in tree.files:
            self._reach(path)
            try:
                found[path] = _status(os.stat(path))  # noqa: PTH116
            except OSError:
                continue
        return found

    def _look(self, path: str) -> _File:
        known = self._known.get(path)
        reader = known.reader if known is not None else self._reader(Path(path))
        began_s = self._clock()
        self._reach(path)
        status = None
        try:
            found = os.stat(path)  # noqa: PTH116
            status, stamp = _status(found), _stamp(found)
            if known is not None and known.stamp == stamp:
                return known
            data = self._read(Path(path))
        except OSError as error:
            content = unreadable(path, f"can't be read: {error.strerror}")
            return _File(FoundFile(content=content), status, None, reader)
        self._work()
        lasting = stamp if began_s - max(stamp[3:]) / 1e9 > _STAMPED_S else None
        digest = hashlib.sha256(data).digest()
        if known is not None and known.seen.digest == digest:
            return _File(known.seen, status, lasting, reader)
        content = reader.read(data)
        if content.problems:
            self.wrong_files += 1
        else:
            self.right_objects += len(content.objects)
        return _File(FoundFile(content=content, digest=digest), status, lasting, reader)

    def _reader(self, path: Path) -> FileReader:
        return FileReader(
            str(path),
            single=self._single.get(str(path)),
            allow_unsupported=self._allow_unsupported,
            keep_lines=self._keep_lines,
        )


def _stamp(status: os.stat_result) -> _Stamp:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _status(status: os.stat_result) -> _Status:
    return status.st_ino, status.st_mtime_ns, status.st_size


_DIRECTORY: _Status = (0, 0, 0)


def _inserted(
    known: Mapping[str, _File], path: str, file: _File, *, last: Container[str]
) -> dict[str, _File]:
    """Return the files with a new one, in the order of a whole look; `last` stays at the end."""
    paths = [each for each in known if each not in last]
    at = bisect(paths, Path(path).parts, key=lambda each: Path(each).parts)
    items = list(known.items())
    items.insert(at, (path, file))
    return dict(items)
