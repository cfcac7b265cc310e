"""The end-to-end tests: real processes, real Envoys, real certificates, this machine only."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parent / "chaos"))

Record = Callable[[str, object], None]


@pytest.fixture
def record(record_property: Record, capsys: pytest.CaptureFixture[str]) -> Record:
    """Keep a figure: in the test's report, and on the terminal."""

    def keep(name: str, value: object) -> None:
        # As text: the report may be written in another process.
        record_property(name, value if isinstance(value, int | float) else str(value))
        with capsys.disabled():
            sys.stdout.write(f"\n    {name}: {value}")

    return keep
