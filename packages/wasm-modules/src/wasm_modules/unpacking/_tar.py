"""The entries of a tar archive, one after the other; nothing is extracted to a path.

`tarfile` keeps every entry in memory, reads headers of any length and follows chains of them
recursively. https://www.gnu.org/software/tar/manual/html_node/Standard.html, and `pax` of POSIX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from wasm_modules._errors import FetchError

BLOCK = 512
_MAX_ENTRIES = 100_000
_MAX_EXTENSION_BYTES = 64 * 1024
_MAX_EXTENSIONS_BYTES = 4 * 1024 * 1024
"""Of all extended headers of an archive; each of their records costs time, and most of them are
short."""
_REGULAR = frozenset({b"0", b"\0", b"7"})
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = b"x", b"g", b"L", b"K"
_COPY_BYTES = 64 * 1024


class Readable(Protocol):
    """The part of a file that is used here."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""
        ...


class NoArchive(FetchError):
    """The bytes are no archive, or one that is damaged."""


class Entry(NamedTuple):
    """One entry.

    name: as the archive has it; no path of this machine.
    regular: it is a file, not a link, a directory or a device.
    """

    name: str
    size: int
    regular: bool


class _Header(NamedTuple):
    name: str
    size: int
    kind: bytes


class _Extension(NamedTuple):
    """The part of extended headers that is kept: of the entry that follows them."""

    path: str | None = None
    size: str | None = None
    sparse: bool = False


def is_header(block: bytes) -> bool:
    """Return whether a block is the header of an entry."""
    if len(block) < BLOCK:
        return False
    try:
        return _octal(block[148:156]) == sum(block[:148]) + 8 * 0x20 + sum(block[156:BLOCK])
    except NoArchive:
        return False


class Tar:
    """Reads an archive whose first block was read already."""

    def __init__(self, source: Readable, first: bytes) -> None:
        self._source = source
        self._first = first
        self._left = 0
        self._extensions_left = _MAX_EXTENSIONS_BYTES

    def entries(self) -> Iterator[Entry]:
        """Yield the entries; raises NoArchive."""
        extension, seen = _Extension(), b""
        block = self._first
        for _ in range(_MAX_ENTRIES):
            if not block.strip(b"\0"):
                return
            header = _header(block)
            if header.kind in (_PAX, _LONG_NAME):
                # Without a file they would cost time and say nothing.
                if header.kind in seen:
                    raise NoArchive("the archive has several extended headers for one entry")
                seen += header.kind
                content = self._extension(header.size)
                if header.kind == _PAX:
                    extension = _pax(content, extension)
                else:
                    extension = extension._replace(path=_text(content))
            elif header.kind in (_PAX_GLOBAL, _LONG_LINK):
                self._skip(_padded(header.size))
            else:
                yield from self._entry(header, extension)
                extension, seen = _Extension(), b""
            block = self._block()
        raise NoArchive(f"the archive has more than {_MAX_ENTRIES} entries")

    def read(self, size: int, /) -> bytes:
        """Return the next bytes of the entry that was yielded last, none at its end."""
        data = self._source.read(min(size, self._left))
        if not data and self._left and size:
            raise NoArchive("the archive is cut short")
        self._left -= len(data)
        return data

    def _entry(self, header: _Header, extension: _Extension) -> Iterator[Entry]:
        size = header.size
        if (size_text := extension.size) is not None:
            if not (size_text.isascii() and size_text.isdigit() and len(size_text) < 20):
                raise NoArchive("the archive has an entry without a size")
            size = int(size_text)
        regular = header.kind in _REGULAR and not extension.sparse
        self._left = size
        name = header.name if extension.path is None else extension.path
        yield Entry(name=name, size=size, regular=regular)
        self._skip(self._left + _padded(size) - size)
        self._left = 0

    def _extension(self, size: int) -> bytes:
        if size > _MAX_EXTENSION_BYTES:
            raise NoArchive(f"the archive has a header of {size} bytes")
        self._extensions_left -= size
        if self._extensions_left < 0:
            raise NoArchive(
                f"the archive has more than {_MAX_EXTENSIONS_BYTES} bytes of extended headers"
            )
        return self._exactly(_padded(size))[:size]

    def _block(self) -> bytes:
        block = self._exactly(BLOCK, or_end=True)
        return block or bytes(BLOCK)

    def _skip(self, size: int) -> None:
        while size:
            data = self._source.read(min(size, _COPY_BYTES))
            if not data:
                raise NoArchive("the archive is cut short")
            size -= len(data)

    def _exactly(self, size: int, *, or_end: bool = False) -> bytes:
        parts: list[bytes] = []
        missing = size
        while missing:
            data = self._source.read(missing)
            if not data:
                if or_end and not parts:
                    return b""
                raise NoArchive("the archive is cut short")
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)


def _header(block: bytes) -> _Header:
    if not is_header(block):
        raise NoArchive("the archive is damaged")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:
        name = f"{_text(block[345:500])}/{name}"
    return _Header(name=name, size=_octal(block[124:136]), kind=block[156:157])


def _octal(field: bytes) -> int:
    """Return a number of a header: octal digits, or big numbers in base 256."""
    if field[0] & 0x80:
        if field[0] != 0x80:
            raise NoArchive("the archive has an entry of a negative size")
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip()
    if not digits:
        return 0
    if any(digit not in b"01234567" for digit in digits):
        raise NoArchive("the archive is damaged")
    return int(digits, 8)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _pax(content: bytes, before: _Extension) -> _Extension:
    """Return what an extended header says of its entry, besides what is known of it.

    Its records are a length, a key, `=`, a value, a line feed.
    """
    path, size, sparse = before
    at = 0
    while at < len(content):
        space = content.find(b" ", at, at + 20)
        digits = content[at:space] if space > 0 else b""
        if not digits.isdigit():
            raise NoArchive("the archive has an extended header that is damaged")
        end = at + int(digits)
        equals = content.find(b"=", space, end)
        if equals < 0 or end > len(content) or end <= space:
            raise NoArchive("the archive has an extended header that is damaged")
        key = content[space + 1 : equals]
        if key == b"path":
            path = content[equals + 1 : end - 1].decode("utf-8", "replace")
        elif key == b"size":
            size = content[equals + 1 : end - 1].decode("utf-8", "replace")
        elif key.startswith(b"GNU.sparse"):
            sparse = True
        at = end
    return _Extension(path, size, sparse)
