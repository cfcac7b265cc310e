"""The README's examples, run as they stand."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = dict(re.findall(r"```(python(?: run)?)\n(.*?)```", README.read_text(), re.DOTALL))


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(EXAMPLES["python run"], str(README), "exec"), {})  # noqa: S102 - our own README
    assert capsys.readouterr().out
