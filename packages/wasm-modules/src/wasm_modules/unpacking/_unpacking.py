"""A module from what was fetched: the module itself, gzip of it, tar, or tar in gzip.

All that is read and written is bounded, so a small file cannot become a large one.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from wasm_modules._errors import FetchError
from wasm_modules.unpacking._tar import BLOCK, Entry, NoArchive, Readable, Tar, is_header

MAGIC: Final = b"\0asm"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SMALLEST = 8  # the magic number and the version
_COPY_BYTES = 64 * 1024
IN_IMAGE: Final = "plugin.wasm"


def unpack(
    path: Path,
    module: Path,
    *,
    most: int,
    wanted: Callable[[Entry], bool] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Write the module in a file to a new file; return its SHA-256 in hex. Blocks.

    most: of the bytes that come out of the archive.
    wanted: which entry of an archive is the module; without it, the first file that looks like one,
        and the file may be a module that is in no archive.
    is_stopped: asked before each block that is read; a thread can be ended in no other way.
    Raises FetchError, and OSError if a file cannot be read or written.
    """
    with path.open("rb") as packed:
        source: Readable = packed
        head = packed.read(len(_GZIP))
        packed.seek(0)
        try:
            if head == _GZIP:
                with gzip.GzipFile(fileobj=packed, mode="rb") as unpacked:
                    return _module_of(_Bounded(unpacked, most, is_stopped), module, wanted)
            return _module_of(_Bounded(source, most, is_stopped), module, wanted)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise NoArchive(f"the archive is damaged: {error}") from error


def in_image(entry: Entry) -> bool:
    """Return whether an entry of an image's layer is its module."""
    return entry.name.removeprefix("./").removeprefix("/") == IN_IMAGE


def is_archive(path: Path) -> bool:
    """Return whether a file is not the module itself. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) != MAGIC


class _Bounded:
    """Reads at most so many bytes, then raises FetchError; as it does once it is stopped."""

    def __init__(self, source: Readable, most: int, is_stopped: Callable[[], bool]) -> None:
        self._source = source
        self._most = self._left = most
        self._is_stopped = is_stopped

    def read(self, size: int, /) -> bytes:
        if self._is_stopped():
            raise FetchError("no one waits for the module any more")
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise FetchError(f"more than {self._most} bytes come out of the archive")
        return data


class _Joined:
    """Bytes that were read already, and then the rest."""

    def __init__(self, first: bytes, rest: Readable) -> None:
        self._first = first
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        data, self._first = self._first[:size], self._first[size:]
        return data or self._rest.read(size)


def _module_of(source: _Bounded, module: Path, wanted: Callable[[Entry], bool] | None) -> str:
    first = _at_most(source, BLOCK)
    if first.startswith(MAGIC) and wanted is None:
        return _write_module(_Joined(first, source), module)
    if is_header(first):
        return _module_in(Tar(source, first), module, wanted)
    if first.startswith(_ZSTD):
        raise FetchError("it is packed with zstd; gzip is read")
    raise FetchError("it is no Wasm module, and no tar or gzip of one")


def _module_in(tar: Tar, module: Path, wanted: Callable[[Entry], bool] | None) -> str:
    for entry in tar.entries():
        if not entry.regular or (wanted is not None and not wanted(entry)):
            continue
        first = _at_most(tar, len(MAGIC))
        if first == MAGIC:
            return _write_module(_Joined(first, tar), module)
        if wanted is not None:
            raise FetchError(f"{entry.name[:100]!r} in the archive is no Wasm module")
    name = IN_IMAGE if wanted is not None else "Wasm module"
    raise NoModule(f"the archive has no {name}")


class NoModule(FetchError):
    """The archive is one, but the module is not in it."""


def _write_module(source: Readable, path: Path) -> str:
    digest = hashlib.sha256()
    size = 0
    with _created(path) as file:
        while data := source.read(_COPY_BYTES):
            size += len(data)
            digest.update(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if size < _SMALLEST:
        raise FetchError(f"it is no Wasm module: {size} bytes")
    return digest.hexdigest()


def _created(path: Path) -> BinaryIO:
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
    )


def _at_most(source: Readable, size: int) -> bytes:
    parts = b""
    while len(parts) < size and (data := source.read(size - len(parts))):
        parts += data
    return parts
