"""The README's example, run as it stands."""

import asyncio
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    exec(compile(example, str(README), "exec"), {"asyncio": asyncio})  # noqa: S102 - our own README
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("200 ")
    assert "issued-1" in first
    assert '"exchanges": 0' in second
    assert "issued-1" not in second
