"""A child prints the same whatever the environment of this process says of printing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mesh_testkit import plain_environment

FAILING = "import pytest\ndef test_it():\n    pytest.fail('a long reason, ' * 20, pytrace=False)\n"
SURROUNDINGS = {
    "ci": {"CI": "true", "BUILD_NUMBER": "7"},
    "colours": {"FORCE_COLOR": "1", "PY_COLORS": "1", "PYTHON_COLORS": "1", "TERM": "xterm"},
    "narrow": {"COLUMNS": "40", "LINES": "5"},
    "inside of pytest": {"PYTEST_ADDOPTS": "-v", "PYTEST_XDIST_WORKER": "gw7"},
}


def output(folder: Path, environment: dict[str, str]) -> str:
    plugins = ("-p", "no:cacheprovider", "-p", "no:mesh_testkit.plugin", "-p", "no:asyncio")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "test_it" in done.stdout
    return re.sub(r"in [\d.]+s", "in no time", done.stdout)


@pytest.mark.parametrize("case", SURROUNDINGS)
def test_a_child_pytest_prints_the_same_wherever_it_is_started(tmp_path: Path, case: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(FAILING)
    surroundings = os.environ | SURROUNDINGS[case]
    assert output(tmp_path, plain_environment(surroundings)) == output(
        tmp_path, plain_environment({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    )


def test_the_rest_of_the_environment_is_kept() -> None:
    printing = {"CI": "true", "LC_ALL": "de_DE.UTF-8", "PYTEST_CURRENT_TEST": "x"}
    kept = plain_environment({"PATH": "/bin", **printing, "A": "b"})
    assert kept == {"PATH": "/bin", "A": "b", "LANG": "C.UTF-8"}
