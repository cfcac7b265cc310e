"""The README's example, run as it stands."""

import asyncio
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def run(example: str) -> None:
    exec(compile(example, str(README), "exec"), {"asyncio": asyncio})  # noqa: S102 - our own README


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """That it needs the plain install alone is tested where that is all there is (`alone`)."""
    (example,) = re.findall(r"```python run\n(.*?)```", README.read_text(), re.DOTALL)
    run(example)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("200 ")
    assert "issued-1" in first
    assert '"exchanges": 0' in second
    assert "issued-1" not in second


def test_the_authorization_server_answers(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    run(example)
    assert float(capsys.readouterr().out) > 0
