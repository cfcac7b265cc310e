"""The logs of a mesh by the names that people use: `backend`, `backend.agent`, `backend.envoy`.

They are read from the state folder, so that those of a mesh that has ended can be read, too.
"""

import difflib
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mesh_local._errors import StateError

ENVOY_LINE = re.compile(rb"[^\t]*\t[^\t]*\tenvoy(?: [^\t]*)?\t")
"""A line of Envoy's in the log of its agent: time, level, `envoy COMPONENT`."""

_AGENT, _ENVOY = ".agent", ".envoy"
_POLL_S = 0.25
_BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A log, or those lines of an agent's log that are its Envoy's, or are not."""

    name: str
    path: Path
    of_envoy: bool | None = None

    def has(self, line: bytes) -> bool:
        """Return whether a line of the file is meant."""
        return self.of_envoy is None or bool(ENVOY_LINE.match(line)) is self.of_envoy


def find_sources(folder: Path, names: Sequence[str]) -> list[Source]:
    """Return the logs of these names, or all; raises `StateError` for a name that none has.

    The name of a workload means each of its replicas.
    """
    files = {each.name.removesuffix(".log"): each for each in sorted(folder.glob("*.log"))}
    if not names:
        return [Source(name, path) for name, path in files.items()]
    found: dict[Source, None] = {}
    for name in names:
        sources = [*_named(files, name)]
        if not sources:
            raise StateError(_missing(name, files))
        found |= dict.fromkeys(sources)
    return [*found]


def _missing(name: str, files: Iterable[str]) -> str:
    known = sorted(files)
    agents = [each.removesuffix(_AGENT) for each in known if each.endswith(_AGENT)]
    close = difflib.get_close_matches(name, [*known, *(f"{each}{_ENVOY}" for each in agents)], n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"there are {', '.join(known) or 'none'}"
    return f'there is no log "{name}"; {hint}'


def _named(files: dict[str, Path], name: str) -> Iterator[Source]:
    of_envoy = True if name.endswith(_ENVOY) else False if name.endswith(_AGENT) else None
    workload = name.removesuffix(_ENVOY).removesuffix(_AGENT)
    ending = "" if of_envoy is None else _AGENT
    replica = re.compile(rf"{re.escape(workload)}(?:-\d+)?{re.escape(ending)}")
    own = [each for each in files if each == f"{workload}{ending}"]
    for each in own or (each for each in files if replica.fullmatch(each)):
        shown = each.removesuffix(_AGENT) + _ENVOY if of_envoy else each
        yield Source(shown, files[each], of_envoy)


class Reading:
    """The place in a log up to which it has been read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._at = 0
        self._file: tuple[int, int] | None = None
        self._begun = b""

    def last(self, count: int) -> list[bytes]:
        """Return the last lines of it, without their ends, and go to its end."""
        lines: list[bytes] = []
        for line in self.new():
            lines.append(line)
            del lines[: max(0, len(lines) - count)]
        return lines

    def new(self) -> Iterator[bytes]:
        """Yield the whole lines that are new; from the beginning in a file of another run."""
        try:
            with self.source.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if self._file != (found.st_dev, found.st_ino) or found.st_size < self._at:
                    self._file, self._at, self._begun = (found.st_dev, found.st_ino), 0, b""
                file.seek(self._at)
                while block := file.read(_BLOCK_BYTES):
                    self._at += len(block)
                    *lines, self._begun = (self._begun + block).split(b"\n")
                    yield from (each for each in lines if self.source.has(each))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StateError(f"{self.source.path} can't be read: {error.strerror}") from None

    def rest(self) -> Iterator[bytes]:
        """Yield a last line that has no end."""
        if self._begun and self.source.has(self._begun):
            yield self._begun


def log_lines(
    folder: Path, names: Sequence[str], *, count: int, follow: bool
) -> Iterator[tuple[str, bytes]]:
    """Yield the last lines of each log with its name, and with `follow` those that come.

    Logs that come later are followed, too. Raises `StateError`.
    """
    readings = {each: Reading(each) for each in find_sources(folder, names)}
    for source, reading in readings.items():
        yield from ((source.name, line) for line in reading.last(count))
        if not follow:
            yield from ((source.name, line) for line in reading.rest())
    while follow:
        time.sleep(_POLL_S)
        for source in _sources_now(folder, names):
            reading = readings.setdefault(source, Reading(source))
            yield from ((source.name, line) for line in reading.new())


def _sources_now(folder: Path, names: Sequence[str]) -> list[Source]:
    """Return the logs that there are now: those of a name may be gone for a while."""
    try:
        return find_sources(folder, names)
    except StateError:
        return []
