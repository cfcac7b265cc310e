"""Any text as a file of configuration: objects, or mistakes with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from istio_config import FileReader, snapshot_of

LONGEST_BYTES = 6000
_ROOT = Path(__file__).parents[3]


def check(data: bytes) -> None:
    """Each mistake has a line; what is right holds together."""
    content = FileReader("fuzz.yaml").read(data)
    for problem in (*content.problems, *content.notes, *content.warnings):
        assert problem.line >= 1
        assert problem.message
    if not content.problems:
        assert len(snapshot_of([content]).objects) == len(content.by_key)


def originals() -> Iterator[bytes]:
    """The rules of the examples, and those that tests have for each kind."""
    for pattern in ("examples/*/rules/*.yaml", "examples/*/steps/*.yaml", "packaging/**/*.yaml"):
        for file in sorted(_ROOT.glob(pattern)):
            yield from _documents(file)
    yield from _documents(_ROOT / "packages/istio-config/tests/support/cluster.yaml")
    for file in sorted(_ROOT.glob("packages/*/tests/**/*.yaml"))[:60]:
        yield from _documents(file)


def _documents(file: Path) -> Iterator[bytes]:
    for text in file.read_bytes().split(b"\n---\n"):
        if len(text) <= LONGEST_BYTES:
            yield text
