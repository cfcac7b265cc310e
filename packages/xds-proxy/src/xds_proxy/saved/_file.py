"""The form of a saved file: a header, a body, and a digest of both.

    magic, format (2 bytes), length of the header (4 bytes), header (JSON), body, SHA-256 (32 bytes)

The body of a type's file is a `DeltaDiscoveryResponse` with the type's resources, whatever dialect
they came in; that of the list of files is empty. The digest finds damage. It is no proof against a
writer that may write the file: the mode of file and directory keeps other users out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

MAGIC = b"xds-proxy saved configuration\n"
FORMAT = 1

_DIGEST_BYTES = 32
_FORMAT_BYTES, _LENGTH_BYTES = 2, 4
_START = len(MAGIC) + _FORMAT_BYTES + _LENGTH_BYTES
_MAX_HEADER_BYTES = 1 << 20

Header = Mapping[str, object]


class UnusableFile(Exception):
    """A saved file that is not used; the text says why, as a part of a sentence."""


class SavedFile(NamedTuple):
    """A file that is whole. digest: hexadecimal, as the list of files names it."""

    header: Header
    body: bytes
    digest: str


class Encoded(NamedTuple):
    """A file to be written, in parts so that a large body is not copied."""

    parts: tuple[bytes, ...]
    size: int
    digest: str


def encode(header: Header, body: Iterable[bytes] = ()) -> Encoded:
    """Return the file with this header and body; the header's values are JSON."""
    written = json.dumps(header, sort_keys=True).encode("ascii")
    parts = [
        MAGIC,
        FORMAT.to_bytes(_FORMAT_BYTES, "big"),
        len(written).to_bytes(_LENGTH_BYTES, "big"),
        written,
        *body,
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    parts.append(digest.digest())
    return Encoded(tuple(parts), sum(map(len, parts)), digest.hexdigest())


def decode(content: bytes) -> SavedFile:
    """Read a file; raises UnusableFile."""
    if not content.startswith(MAGIC):
        said = "it is empty" if not content else "it is no saved configuration"
        if content and MAGIC.startswith(content[: len(MAGIC)]):
            said = "it is cut short"
        raise UnusableFile(said)
    if len(content) < _START + _DIGEST_BYTES:
        raise UnusableFile("it is cut short")
    fields = memoryview(content)[len(MAGIC) : _START]
    written_as = int.from_bytes(fields[:_FORMAT_BYTES], "big")
    if written_as > FORMAT:
        raise UnusableFile(
            f"its format is {written_as}, and this agent reads {FORMAT}: a newer agent wrote it, or"
            " it is damaged"
        )
    view = memoryview(content)
    digest = hashlib.sha256(view[:-_DIGEST_BYTES])
    if digest.digest() != content[-_DIGEST_BYTES:]:
        raise UnusableFile("it is damaged or cut short: its digest does not match its content")
    if written_as != FORMAT:
        raise UnusableFile(f"its format is {written_as}, and this agent reads {FORMAT}")
    length = int.from_bytes(fields[_FORMAT_BYTES:], "big")
    end = len(content) - _DIGEST_BYTES
    if length > _MAX_HEADER_BYTES or _START + length > end:
        raise UnusableFile("its header is longer than the file")
    return SavedFile(
        _header(content[_START : _START + length]),
        content[_START + length : end],
        digest.hexdigest(),
    )


def _header(written: bytes) -> Header:
    try:
        header = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise UnusableFile("its header is no JSON") from error
    if not isinstance(header, dict):
        raise UnusableFile("its header is no JSON object")
    return header


class Entry(NamedTuple):
    """A type's file, as the list of files names it.

    file: its name. digest: of its content. resources: their number. size: in bytes.
    version: the newest that the control plane sent of the type.
    """

    file: str
    digest: str
    resources: int
    size: int
    version: str


class FileList(NamedTuple):
    """The list of files: which belong together, and for whom and when they were saved.

    owner: for whom, by what distinguishes one workload and one mesh from another.
    control_planes: the addresses, any of which the configuration may come from.
    envoy: the version of the Envoy that accepted it, as it said itself; empty if it did not.
    current_at: until when it was known to be the control plane's newest; Unix time.
    """

    owner: Mapping[str, str]
    control_planes: tuple[str, ...]
    envoy: str
    current_at: float
    types: Mapping[str, Entry]

    def header(self) -> Header:
        """Return the list as the header of a file."""
        return {
            "owner": dict(self.owner),
            "control_planes": list(self.control_planes),
            "envoy": self.envoy,
            "current_at": self.current_at,
            "types": {name: entry._asdict() for name, entry in self.types.items()},
        }

    @classmethod
    def parse(cls, header: Header) -> FileList:
        """Read the list from a header; raises UnusableFile."""
        try:
            return cls(
                owner=_texts(header["owner"]),
                control_planes=tuple(map(_text, _list(header["control_planes"]))),
                envoy=_text(header["envoy"]),
                current_at=_time(header["current_at"]),
                types=dict(_entries(header["types"])),
            )
        except (KeyError, TypeError) as error:
            raise UnusableFile(f"its header is not of this format: {error}") from error


def _entries(found: object) -> Iterator[tuple[str, Entry]]:
    for type_url, fields in _dict(found).items():
        values = _dict(fields)
        yield (
            _text(type_url),
            Entry(
                file=_text(values["file"]),
                digest=_text(values["digest"]),
                resources=_whole(values["resources"]),
                size=_whole(values["size"]),
                version=_text(values["version"]),
            ),
        )


def _dict(found: object) -> Mapping[object, object]:
    if not isinstance(found, dict):
        raise TypeError("an object is missing")
    return found


def _list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise TypeError("a list is missing")
    return found


def _texts(found: object) -> Mapping[str, str]:
    return {_text(name): _text(value) for name, value in _dict(found).items()}


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError("a text is missing")
    return found


def _whole(found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise TypeError("a number is missing")
    return found


def _time(found: object) -> float:
    # NaN and infinity are JSON for Python, and would pass every comparison or none.
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        raise TypeError("a time is missing")
    return float(found)
