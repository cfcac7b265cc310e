"""The files: `ROOT/SHA-256 of the name/SHA-256 of the module.wasm`, and an index beside them.

All functions block, and may be called in several threads. Files are put in place by renaming, so
that there is never half a module; what is found is checked against its name before it is used, once
for as long as it does not change. So other processes may use the same root, and a restart or a
crash at any moment costs a fetch at most.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mesh_filewatch import read_bytes
from wasm_modules.cache._index import Index

log = logging.getLogger("wasm_modules")

_SUFFIX = ".wasm"
_INDEX = "index.json"
_MAX_INDEX_BYTES = 1 << 20
_FETCHING = ".fetch-"
_ABANDONED_S = 3600.0
_READ_BYTES = 1 << 20


class Wanted(NamedTuple):
    """A module to be found.

    name: the URL without what says which version of it; the folder.
    reference: the whole URL.
    checksum: of the module or of what it came in; empty: the one that the reference led to last.
    newest: the reference alone does not do: the same version of the resource must have asked.
    """

    name: str
    reference: str
    checksum: str
    newest: bool
    resource_version: str


class Store:
    """The files below a root."""

    def __init__(self, root: Path, *, max_module_bytes: int, now: Callable[[], float]) -> None:
        # Envoy's working directory may be another one.
        self._root = root.absolute()
        self._now = now
        self._max_module_bytes = max_module_bytes
        self._checked: dict[Path, tuple[int, ...]] = {}
        self._changing = threading.Lock()
        """Held to put a module and its index in place, and to remove them."""

    def find(self, wanted: Wanted) -> Path | None:
        """Return the file of a module; None if it is not here. Raises OSError."""
        index = self._index(wanted.name)
        if wanted.checksum:
            module = index.digests.get(wanted.checksum, wanted.checksum)
        else:
            module, version = index.references.get(wanted.reference, ("", ""))
            if wanted.newest and (not version or version != wanted.resource_version):
                return None
        return self._usable(wanted.name, module) if module else None

    def new_folder(self) -> Path:
        """Return a folder for one fetch, which the caller removes. Raises OSError."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self._root, prefix=_FETCHING))

    def remove_folder(self, folder: Path) -> None:
        """Remove the folder of a fetch."""
        shutil.rmtree(folder, ignore_errors=True)

    def put(self, fetched: Path, module: str, wanted: Wanted, digests: frozenset[str]) -> Path:
        """Take a module whose SHA-256 was just computed; return where it is now. Raises OSError."""
        path = self._path(wanted.name, module)
        with self._changing:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fetched.replace(path)
            _sync(path.parent)
            self._used(path)
            self._note(module, wanted, digests)
        return path

    def note(self, module: str, wanted: Wanted, digests: frozenset[str]) -> None:
        """Remember that a reference and digests lead to a module. Raises OSError."""
        with self._changing:
            self._note(module, wanted, digests)

    def _note(self, module: str, wanted: Wanted, digests: frozenset[str]) -> None:
        index = self._index(wanted.name)
        index.add(
            module,
            digests=digests | {module},
            reference=wanted.reference,
            resource_version=wanted.resource_version,
        )
        self._write(index)

    def purge(self, *, unused_since: float, in_use: Collection[Path]) -> int:
        """Remove modules that nothing has used since a time; return how many stay.

        Also what fetches left behind that ended in a crash.
        """
        with self._changing:
            left = self._purge(unused_since, in_use)
            self._remove_abandoned()
        return left

    def _purge(self, unused_since: float, in_use: Collection[Path]) -> int:
        left = 0
        for folder in self._folders():
            removed = []
            for path in _modules_in(folder):
                with suppress(OSError):
                    if path in in_use:
                        # A restart knows what is in use by the file's time only.
                        self._used(path)
                        left += 1
                    elif path.stat().st_mtime > unused_since:
                        left += 1
                    else:
                        path.unlink()
                        self._checked.pop(path, None)
                        removed.append(path.stem)
            if removed:
                self._forget(folder, removed)
        return left

    def count(self) -> int:
        """Return how many modules there are."""
        return sum(1 for folder in self._folders() for _ in _modules_in(folder))

    def _usable(self, name: str, module: str) -> Path | None:
        path = self._path(name, module)
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None
        if self._checked.get(path) != _signature(status) and not self._is(path, module):
            log.warning("cached wasm module is damaged", extra={"path": str(path)})
            self._checked.pop(path, None)
            _remove(path)
            return None
        try:
            return self._used(path)
        except FileNotFoundError:  # Removed by another process meanwhile.
            return None

    def _used(self, path: Path) -> Path:
        now = self._now()
        try:
            os.utime(path, (now, now))
        except FileNotFoundError:
            raise
        except OSError as error:
            # A cache that can only be read serves what it has; nothing is purged there either.
            log.debug("use of a module not noted", extra={"file": str(path), "reason": error})
        self._checked[path] = _signature(path.lstat())
        return path

    def _is(self, path: Path, module: str) -> bool:
        """Return whether a file has this SHA-256; a link, a FIFO or a huge file is never read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > self._max_module_bytes:
                return False
            digest = hashlib.sha256()
            while data := file.read(_READ_BYTES):
                digest.update(data)
            return digest.hexdigest() == module

    def _folder(self, name: str) -> Path:
        return self._root / hashlib.sha256(name.encode()).hexdigest()

    def _path(self, name: str, module: str) -> Path:
        return self._folder(name) / f"{module}{_SUFFIX}"

    def _index(self, name: str) -> Index:
        index = _read_index(self._folder(name))
        return index if index is not None and index.name == name else Index(name)

    def _write(self, index: Index) -> None:
        path = self._folder(index.name) / _INDEX
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{_INDEX}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(index.to_json())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _forget(self, folder: Path, modules: list[str]) -> None:
        if not any(_modules_in(folder)):
            shutil.rmtree(folder, ignore_errors=True)
            return
        index = _read_index(folder)
        if index is not None and self._folder(index.name) == folder:
            for module in modules:
                index.remove(module)
            with suppress(OSError):
                self._write(index)

    def _folders(self) -> Iterator[Path]:
        with suppress(OSError):
            for entry in sorted(self._root.iterdir()):
                if len(entry.name) == 64 and entry.is_dir() and not entry.is_symlink():
                    yield entry

    def _remove_abandoned(self) -> None:
        with suppress(OSError):
            for entry in self._root.glob(f"{_FETCHING}*"):
                with suppress(OSError):
                    if entry.lstat().st_mtime < self._now() - _ABANDONED_S:
                        self.remove_folder(entry)


def _read_index(folder: Path) -> Index | None:
    try:
        return Index.from_json(read_bytes(folder / _INDEX, max_bytes=_MAX_INDEX_BYTES))
    except OSError:
        return None


def _modules_in(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder.glob(f"*{_SUFFIX}"))


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
