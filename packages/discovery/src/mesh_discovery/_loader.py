"""A directory of YAML files as one snapshot: all objects of all files, or all that is wrong.

Files whose bytes have not changed are not parsed again. Nothing here is asynchronous: the shell
calls `load` from a thread.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mesh_discovery._documents import MAX_BYTES, read_documents
from mesh_discovery._objects import ConfigObject, Read, read_mesh_config, read_object
from mesh_discovery._problems import Problem
from mesh_discovery._schema import MeshConfigSpec

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A whole valid configuration."""

    objects: tuple[ConfigObject, ...]
    mesh: MeshConfigSpec
    notes: tuple[Problem, ...] = ()
    """What is accepted and has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a look at the files gave: a snapshot, or problems and none."""

    snapshot: Snapshot | None
    problems: tuple[Problem, ...]
    files: tuple[str, ...]
    directories: frozenset[Path]
    """Every real directory that holds some of it: what to watch."""


@dataclass(frozen=True, slots=True)
class _File:
    digest: bytes
    reads: tuple[Read, ...]
    problems: tuple[Problem, ...]


class ConfigLoader:
    """Reads the same directory again and again."""

    def __init__(self, directory: Path, *, mesh_config: Path | None = None) -> None:
        self.directory = directory
        self.mesh_config = mesh_config
        self._known: dict[Path, _File] = {}

    def load(self) -> Load:
        """Read everything; file-system errors are problems like any others."""
        problems: list[Problem] = []
        directories: set[Path] = set()
        paths = list(_yaml_files(self.directory, problems, directories))
        reads: list[Read] = []
        known: dict[Path, _File] = {}
        for path in paths:
            self._read(path, known, reads, problems)
        if self.mesh_config is not None:
            directories.add(self.mesh_config.absolute().parent)
            directories.add(self.mesh_config.resolve().parent)
            self._read(self.mesh_config, known, reads, problems)
        self._known = known
        for read in reads:
            problems += read.problems
        objects = tuple(read.item for read in reads if read.item is not None)
        problems += _duplicates(objects)
        mesh = [each for each in objects if isinstance(each.spec, MeshConfigSpec)]
        problems += [
            Problem(
                file=extra.file,
                line=extra.line,
                message=f"a second mesh config, the first is at {mesh[0].file}:{mesh[0].line}; "
                "keep one",
            )
            for extra in mesh[1:]
        ]
        snapshot = None
        if not problems:
            snapshot = Snapshot(
                objects=tuple(sorted(objects, key=_age)),
                mesh=_mesh_spec(mesh),
                notes=tuple(note for read in reads for note in read.notes),
            )
        return Load(
            snapshot=snapshot,
            problems=tuple(sorted(set(problems))),
            files=tuple(str(path) for path in known),
            directories=frozenset(directories),
        )

    def signature(self) -> tuple[tuple[str, int, int, int], ...]:
        """Summarise the files' state cheaply, to find changes that no event told of."""
        paths = list(_yaml_files(self.directory, [], set()))
        if self.mesh_config is not None:
            paths.append(self.mesh_config)
        found = []
        for path in paths:
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def _read(
        self, path: Path, known: dict[Path, _File], reads: list[Read], problems: list[Problem]
    ) -> None:
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)
        except OSError as error:
            problems.append(
                Problem(file=str(path), line=1, message=f"can't be read: {error.strerror}")
            )
            return
        digest = hashlib.sha256(data).digest()
        before = self._known.get(path)
        if before is None or before.digest != digest:
            before = _parsed(path, data, digest, is_mesh_config=path == self.mesh_config)
        known[path] = before
        reads += before.reads
        problems += before.problems


def _parsed(path: Path, data: bytes, digest: bytes, *, is_mesh_config: bool) -> _File:
    file = str(path)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(file=file, line=line, message="not UTF-8 text; save the file as UTF-8")
        return _File(digest, (), (problem,))
    documents, problems = read_documents(text, file=file)
    read = read_mesh_config if is_mesh_config else read_object
    return _File(digest, tuple(read(each, file=file) for each in documents), problems)


def _yaml_files(directory: Path, problems: list[Problem], directories: set[Path]) -> Iterator[Path]:
    """Yield the YAML files below, by name; hidden ones are not configuration.

    Kubernetes keeps a projected volume's files twice, in `..2026_01_01` and behind links.
    """
    seen: set[Path] = set()

    def walk(here: Path) -> Iterator[Path]:
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
            if entry.is_dir():
                yield from walk(path)
            elif entry.name.endswith(SUFFIXES):
                if entry.is_symlink():
                    directories.add(path.resolve().parent)
                yield path

    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        problems.append(
            Problem(file=str(directory), line=1, message=f"the config directory {what}")
        )
        return
    yield from walk(directory)


def _duplicates(objects: tuple[ConfigObject, ...]) -> Iterator[Problem]:
    first: dict[tuple[str, str, str], ConfigObject] = {}
    for each in objects:
        known = first.setdefault(each.key, each)
        if known is not each and not isinstance(each.spec, MeshConfigSpec):
            yield Problem(
                file=each.file,
                line=each.line,
                message=f"a second {each.kind} {each.namespace}/{each.name}, the first is at "
                f"{known.file}:{known.line}; rename or remove one",
            )


def _age(item: ConfigObject) -> tuple[str, str, str, str]:
    """Oldest first, then by name and namespace, as Istio breaks ties; undated ones are youngest."""
    return item.created or "9999", item.name, item.namespace, item.kind


def _mesh_spec(found: list[ConfigObject]) -> MeshConfigSpec:
    if found and isinstance(found[0].spec, MeshConfigSpec):
        return found[0].spec
    return MeshConfigSpec()
