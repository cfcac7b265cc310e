"""A directory of YAML files as one snapshot, in which a wrong file has its last good content.

Files that have not changed are neither read nor parsed again. Nothing here is asynchronous: `load`
is called in a thread.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mesh_configfile import MAX_BYTES, Problem
from mesh_discovery.config._file_content import FileContent, FileReader, unreadable
from mesh_discovery.config._last_good import FoundFile, ServedFiles, WrongFile, serve_last_good
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds._mesh_config import MeshConfigSpec
from mesh_filewatch import read_bytes

SUFFIXES = (".yaml", ".yml")

_STAMPED_S = 3.0
"""A file written less than this ago may be written again without its stamp telling: file systems
count in steps, of some milliseconds or of two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A whole configuration whose parts fit together."""

    objects: tuple[ConfigObject, ...]
    mesh_config: MeshConfigSpec
    notes: tuple[Problem, ...] = ()
    """Objects and fields that are accepted and have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The result of reading the files."""

    snapshot: Snapshot
    """The content that can be served; a wrong file has its last good one, if it ever had any."""
    wrong: tuple[WrongFile, ...]
    files: tuple[str, ...]
    directories: frozenset[Path]
    """Every real directory that holds some of the files: the directories to watch."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every mistake in the files, in order."""
        return tuple(sorted({problem for each in self.wrong for problem in each.problems}))


_Stamp = tuple[int, int, int, int, int]
Reached = tuple[int, Path]


@dataclass(frozen=True, slots=True)
class _File:
    seen: FoundFile
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
        allow_unsupported: bool = False,
        clock: Callable[[], float] = time.time,
        read: Callable[[Path], bytes] = _read,
    ) -> None:
        """Read below `directory`.

        mesh_config: a file beside it that holds the mesh config.
        allow_unsupported: kinds and fields that only Istio has are accepted and noted, instead of
            being mistakes.
        clock: returns Unix seconds, as in the files' times.
        read: returns a file's bytes; raises OSError.
        """
        self.directory = directory
        self.mesh_config = mesh_config
        self._allow_unsupported = allow_unsupported
        self._clock = clock
        self._read = read
        self._known: dict[Path, _File] = {}
        self._served = ServedFiles()
        self._reached: Reached = (0, directory)

    @property
    def reached(self) -> "Reached":
        """How many paths the reading under way has come to, and the newest of them."""
        return self._reached

    def _reach(self, path: Path) -> None:
        self._reached = (self._reached[0] + 1, path)

    def load(self) -> Load:
        """Read the files that have changed; errors of the file system become problems."""
        unlisted: list[Problem] = []
        directories: set[Path] = set()
        paths = list(_yaml_files(self.directory, unlisted, directories, self._reach))
        if self.mesh_config is not None:
            self._reach(self.mesh_config)
            directories.add(self.mesh_config.absolute().parent)
            directories.add(self.mesh_config.resolve().parent)
            paths.append(self.mesh_config)
        self._known = {path: self._look(path) for path in paths}
        seen = {each.file: FoundFile(content=FileContent(problems=(each,))) for each in unlisted}
        seen |= {str(path): file.seen for path, file in self._known.items()}
        self._served = serve_last_good(
            self._served, seen, now=self._clock(), unlisted=[each.file for each in unlisted]
        )
        return Load(
            snapshot=_snapshot(self._served),
            wrong=tuple(self._served.wrong.values()),
            files=tuple(str(path) for path in self._known),
            directories=frozenset(directories),
        )

    def signature(self) -> tuple[tuple[str, int, int, int], ...]:
        """Summarise the files cheaply, to find changes without a file event."""
        directories: set[Path] = set()
        paths = list(_yaml_files(self.directory, [], directories, self._reach))
        if self.mesh_config is not None:
            paths.append(self.mesh_config)
        # An empty directory, too, has to be watched from when it is there.
        found = [(str(path), 0, 0, 0) for path in sorted(directories)]
        for path in paths:
            self._reach(path)
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def _look(self, path: Path) -> _File:
        known = self._known.get(path)
        reader = known.reader if known is not None else self._reader(path)
        began_s = self._clock()
        self._reach(path)
        try:
            stamp = _stamp(path.stat())
            if known is not None and known.stamp == stamp:
                return known
            data = self._read(path)
        except OSError as error:
            content = unreadable(str(path), f"can't be read: {error.strerror}")
            return _File(FoundFile(content=content), None, reader)
        lasting = stamp if began_s - max(stamp[3:]) / 1e9 > _STAMPED_S else None
        digest = hashlib.sha256(data).digest()
        if known is not None and known.seen.digest == digest:
            return _File(known.seen, lasting, reader)
        return _File(FoundFile(content=reader.read(data), digest=digest), lasting, reader)

    def _reader(self, path: Path) -> FileReader:
        return FileReader(
            str(path),
            is_mesh_config=path == self.mesh_config,
            allow_unsupported=self._allow_unsupported,
        )


def _stamp(status: os.stat_result) -> _Stamp:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _snapshot(served_files: ServedFiles) -> Snapshot:
    contents = [served.content for served in served_files.served.values()]
    objects = sorted((item for each in contents for item in each.objects), key=_age)
    mesh_configs = [each.spec for each in objects if isinstance(each.spec, MeshConfigSpec)]
    return Snapshot(
        objects=tuple(objects),
        mesh_config=mesh_configs[0] if mesh_configs else MeshConfigSpec(),
        notes=tuple(note for each in contents for note in each.notes),
    )


def _yaml_files(
    directory: Path,
    problems: list[Problem],
    directories: set[Path],
    reach: Callable[[Path], None],
) -> Iterator[Path]:
    """Yield the YAML files below, by name; unlisted ones are not configuration.

    Kubernetes keeps a projected volume's files twice, in `..2026_01_01` and behind links.
    """
    seen: set[Path] = set()

    def walk(here: Path) -> Iterator[Path]:
        reach(here)
        real = here.resolve()
        if real in seen:
            return
        seen.add(real)
        directories.add(real)
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            problems.append(
                Problem(file=str(here), line=1, message=f"can't be read: {error.strerror}")
            )
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = here / entry.name
            reach(path)
            if entry.is_dir():
                yield from walk(path)
            elif entry.name.endswith(SUFFIXES):
                if entry.is_symlink():
                    directories.add(path.resolve().parent)
                yield path

    reach(directory)
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        problems.append(
            Problem(file=str(directory), line=1, message=f"the config directory {what}")
        )
        return
    yield from walk(directory)


def _age(item: ConfigObject) -> tuple[str, str, str, str]:
    """Oldest first, then by name and namespace, as Istio breaks ties; undated ones are youngest."""
    return item.created or "9999", item.name, item.namespace, item.kind
