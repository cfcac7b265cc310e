"""The logs of a mesh's processes: all of each, or the end of it since some time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mesh_local._parts import Kind, parts
from mesh_local._running_mesh import RunningMesh
from mesh_local.asking._logs import ENVOY_LINE


def text_of(mesh: RunningMesh, name: str) -> str:
    """Return all that a process has logged since the mesh started; raises `FaultError`.

    An agent's file has the lines of its Envoy, too: each is known by its component.
    """
    found = []
    for part in parts(mesh, name):
        text = _read(part.child.spec.log, start=0)
        if part.kind in (Kind.ENVOY, Kind.AGENT):
            lines = text.splitlines(keepends=True)
            wanted = part.kind is Kind.ENVOY
            text = "".join(
                line for line in lines if bool(ENVOY_LINE.match(line.encode())) is wanted
            )
        found.append(text)
    return "".join(found)


@dataclass(frozen=True, slots=True)
class LogMarks:
    """How long each log was at some time."""

    sizes: dict[Path, int]

    @classmethod
    def now(cls, mesh: RunningMesh) -> Self:
        """Remember the end of each log."""
        return cls({log: _size(log) for log in _logs(mesh)})

    def written_since(self, *, most_bytes: int) -> Iterator[tuple[str, str]]:
        """Yield the name of each log with something new, and the last of it.

        most_bytes: of each; how much is left out before is named.
        """
        for log, start in self.sizes.items():
            end = _size(log)
            first = max(start, end - most_bytes)
            text = _read(log, start=first)
            if text and first > start:
                text = f"... {first - start} bytes before\n{text}"
            if text:
                yield log.stem, text


def _logs(mesh: RunningMesh) -> Iterable[Path]:
    return dict.fromkeys(each.spec.log for each in mesh.children)


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _read(log: Path, *, start: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")
    except OSError:
        return ""
