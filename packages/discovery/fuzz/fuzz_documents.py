"""Any text as a file of configuration: objects, or mistakes with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mesh_discovery.config._file_content import FileReader
from mesh_discovery.config._snapshot import snapshot_of
from mesh_discovery.model._facts import Facts
from mesh_discovery.model._model import build_model

LONGEST_BYTES = 6000
_ROOT = Path(__file__).parents[3]


def check(data: bytes) -> None:
    """Each mistake has a line; what is right makes a model."""
    content = FileReader("fuzz.yaml").read(data)
    for problem in (*content.problems, *content.notes, *content.warnings):
        assert problem.line >= 1
        assert problem.message
    if content.objects and not content.problems:
        build_model(Facts(snapshot=snapshot_of([content])))


def originals() -> Iterator[bytes]:
    """The rules of the examples, and those that tests have for each kind."""
    for pattern in ("examples/*/rules/*.yaml", "examples/*/steps/*.yaml", "packaging/**/*.yaml"):
        for file in sorted(_ROOT.glob(pattern)):
            yield from _documents(file)
    yield from _documents(_ROOT / "packages/discovery/tests/support/cluster.yaml")
    for file in sorted((_ROOT / "packages/discovery/tests").rglob("*.yaml"))[:60]:
        yield from _documents(file)


def _documents(file: Path) -> Iterator[bytes]:
    for text in file.read_bytes().split(b"\n---\n"):
        if len(text) <= LONGEST_BYTES:
            yield text
