"""Whatever is installed from the package index has a digest that was written down before."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distributions as installed
from pathlib import Path

import pytest

import dev
from workspace import ROOT, distribution_name, distributions, third_party

FILES = ("tools/constraints.txt", "tools/dev-requirements.txt", "proto/requirements.txt")
_DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pins(file: str) -> dict[str, str]:
    """Return the lines of each distribution in a file: its version, and the digests."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {distribution_name(line): line for line in lines}


@pytest.mark.parametrize("file", FILES)
def test_each_pin_is_of_one_version_and_has_digests(file: str) -> None:
    found = pins(file)

    assert found
    for line in found.values():
        assert re.match(r"[A-Za-z0-9._-]+==[^ ]+ ", line), line
        assert _DIGEST.search(line), line


def test_all_that_is_required_is_pinned() -> None:
    found = pins("tools/constraints.txt")
    wanted = {
        distribution_name(line)
        for each in distributions()
        for line in (*third_party(each, *each.groups), *each.builds_with)
    }

    assert wanted
    assert not wanted - found.keys()


def test_all_that_is_installed_here_is_pinned() -> None:
    """What nothing here requires by name is pinned, too."""
    found = pins("tools/constraints.txt")
    own = {each.name for each in distributions()}
    tools = {"pip", "setuptools", "uv"}  # of an environment that a person has made
    names = {distribution_name(each.metadata["Name"]) for each in installed()}

    assert len(names) > 50
    assert not names - own - tools - found.keys()


def test_the_entry_s_own_pins_are_those_of_its_file() -> None:
    found = pins("tools/dev-requirements.txt")

    for pin in dev.PINS:
        assert found[distribution_name(pin)].startswith(f"{pin} ")


def wheel(directory: Path, *, says: str) -> Path:
    """Make a wheel of a distribution `pinned`."""
    path = directory / "pinned-1.0-py3-none-any.whl"
    info = "pinned-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: pinned\nVersion: 1.0\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("pinned.py", f"says = {says!r}\n")
        file.writestr(f"{info}/METADATA", metadata)
        file.writestr(f"{info}/WHEEL", tags)
        file.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.parametrize("as_written", [True, False])
def test_a_file_of_another_digest_is_refused(tmp_path: Path, *, as_written: bool) -> None:
    """A package of ours that requires it is installed as the sessions do: by constraints."""
    uv = shutil.which("uv")
    assert uv is not None, "uv is on PATH where tools/dev.py runs this"
    served = tmp_path / "served"
    served.mkdir()
    digest = hashlib.sha256(wheel(served, says="what was looked at").read_bytes()).hexdigest()
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(f"pinned==1.0 --hash=sha256:{digest}\n")
    if not as_written:
        wheel(served, says="something else")
    target = tmp_path / "target"

    done = subprocess.run(
        [
            *(uv, "pip", "install", "--python", sys.executable, "--target", str(target)),
            *("--no-index", "--find-links", str(served), "--no-cache"),
            *("--constraint", str(constraints), "pinned"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (target / "pinned.py").exists() is as_written
    assert (done.returncode == 0) is as_written
    if not as_written:
        assert "Hash mismatch" in done.stderr
        assert digest in done.stderr
