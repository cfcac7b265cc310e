"""The README's examples, run as they stand."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = dict(re.findall(r"```(python(?: run)?)\n(.*?)```", README.read_text(), re.DOTALL))


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    run, shapes = EXAMPLES["python run"], EXAMPLES["python"]
    exec(compile(run, str(README), "exec"), {})  # noqa: S102 - our own README
    output = capsys.readouterr().out
    assert output.startswith("mesh.yaml:6: service: given twice, first on line 5")
    assert "'reviews'" in output
    assert "1:30:00" in output
    exec(compile(shapes, str(README), "exec"), {})  # noqa: S102
    assert capsys.readouterr().out.startswith("mesh.yaml:2: port: expected")
