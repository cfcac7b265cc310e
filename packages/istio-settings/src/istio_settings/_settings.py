"""Typed reading of environment variables; all problems are gathered, so that one run tells all."""

import ipaddress
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from istio_settings._without_effect import SettingWithoutEffect
from mesh_configfile import parse_duration
from mesh_filewatch import FETCH_TIMEOUT_S, ReadTimedOut, read_bytes_with_timeout, run_with_timeout

T = TypeVar("T")
V = TypeVar("V", str, bool, float, int, timedelta)

_LEAST_S = 0.5
"""How long a file may take when others have used up the time that all have together."""


class Read(NamedTuple):
    """A variable's value, or its default, and where that comes from."""

    value: str | bool | float | timedelta
    origin: str


class Settings:
    """Reads variables by name; for one that is wrong, adds to `problems` and returns the default.

    The files that variables name are read within a time that is bounded for all of them together.

    environ: the process's variables, and from `add_metadata` on those of `proxyMetadata` that it
        does not set.
    without_effect: settings that do nothing.
    reads: the variables that were asked for, with their values.
    """

    def __init__(self, environ: Mapping[str, str], directory: Path) -> None:
        self.environ = environ
        self.problems: list[str] = []
        self.without_effect: list[SettingWithoutEffect] = []
        self.reads: dict[str, Read] = {}
        self._directory = directory
        self._metadata_origins: Mapping[str, str] = {}
        self._files_left_s = FETCH_TIMEOUT_S

    def add_metadata(self, metadata: Mapping[str, str], origins: Mapping[str, str]) -> None:
        """Let `proxyMetadata` count as variables where the process has none, as injection does.

        origins: by name, the layer it was given in.
        """
        added = {name: text for name, text in metadata.items() if not self.environ.get(name)}
        self.environ = {**self.environ, **added}
        self._metadata_origins = {name: origins[name] for name in added}

    @property
    def metadata_added(self) -> Mapping[str, str]:
        """The variables that only `proxyMetadata` sets."""
        return {name: self.environ[name] for name in self._metadata_origins}

    def origin(self, name: str) -> str:
        """Return where a variable's value comes from."""
        if (layer := self._metadata_origins.get(name)) is not None:
            return f"{layer}: proxyMetadata"
        return "env" if self.environ.get(name) else "default"

    def text(self, name: str, default: str = "") -> str:
        return self._noted(name, self.environ.get(name) or default)

    @property
    def in_kubernetes(self) -> bool:
        """Whether the agent is in a pod, where other containers have users of their own."""
        return bool(self.text("KUBERNETES_SERVICE_HOST"))

    def flag(self, name: str, *, default: bool = False) -> bool:
        return self._noted(name, self._flag(name, default=default))

    def _noted(self, name: str, value: V) -> V:
        self.reads[name] = Read(value, self.origin(name))
        return value

    def _flag(self, name: str, *, default: bool) -> bool:
        text = self.environ.get(name)
        if not text:
            return default
        if text.lower() in ("true", "1", "t", "yes"):
            return True
        if text.lower() in ("false", "0", "f", "no"):
            return False
        self.problems.append(f"{name} is {text!r}, it must be true or false")
        return default

    def duration(self, name: str, default: timedelta) -> timedelta:
        return self._noted(name, self._read(name, default, parse_duration))

    def positive_duration(self, name: str, default: timedelta) -> timedelta:
        value = self.duration(name, default)
        if value <= timedelta():
            self.problems.append(f"{name} is {self.text(name)!r}, it must be longer than nothing")
            return default
        return value

    def ratio(self, name: str, default: float) -> float:
        value = self._noted(name, self._read(name, default, float))
        if not 0 <= value <= 1:
            self.problems.append(f"{name} is {self.text(name)!r}, it must lie between 0 and 1")
            return default
        return value

    def port(self, name: str, default: int) -> int:
        value = self._noted(name, self._read(name, default, int))
        if not 0 < value < 65536:
            self.problems.append(f"{name} is {self.text(name)!r}, it must be a port, 1 to 65535")
            return default
        return value

    def whole_number(self, name: str, default: int) -> int:
        """Return a whole number, at least 0."""
        value = self._noted(name, self._read(name, default, int))
        if value < 0:
            self.problems.append(f"{name} is {self.text(name)!r}, it must be 0 or more")
            return default
        return value

    def count(self, name: str, default: int) -> int:
        """Return a whole number, at least 1."""
        value = self._noted(name, self._read(name, default, int))
        if value < 1:
            self.problems.append(f"{name} is {self.text(name)!r}, it must be 1 or more")
            return default
        return value

    def optional_port(self, name: str) -> int | None:
        """Return a port; None if the variable is not set, or 0."""
        if self.text(name, "0") == "0":
            return None
        faults = len(self.problems)
        port = self.port(name, 1)
        return port if len(self.problems) == faults else None

    def path(self, name: str, default: str) -> Path:
        return self.under(self.text(name, default))

    def under(self, path: str) -> Path:
        """Return the path; a relative one is below the agent's directory."""
        return self._directory / path

    def read_file(self, path: Path, *, max_bytes: int) -> bytes:
        """Return the file's content; raises OSError."""
        return self._in_time(
            lambda within_s: read_bytes_with_timeout(path, max_bytes=max_bytes, timeout_s=within_s)
        )

    def is_file(self, path: Path) -> bool:
        """Return whether a file is there; True, and a problem, if its file system hangs."""
        return self._look(path, partial(os.path.isfile, path), otherwise=True)

    def is_directory(self, path: Path) -> bool:
        """Return whether a directory is there; True, and a problem, if its file system hangs."""
        return self._look(path, partial(os.path.isdir, path), otherwise=True)

    def absence(self, path: Path) -> str:
        """Return why `is_file` found no file at this path, in words."""
        if self._look(path, partial(os.path.exists, path), otherwise=True):
            return "is not a regular file"
        is_link = self._look(path, partial(os.path.islink, path), otherwise=False)
        return "is a link that leads nowhere" if is_link else "does not exist"

    def resolved(self, path: Path) -> Path:
        """Return the path without links; if its file system hangs, that is a problem."""
        return Path(self._look(path, partial(os.path.realpath, path), otherwise=str(path)))

    def _look(self, path: Path, work: Callable[[], T], *, otherwise: T) -> T:
        try:
            return self._in_time(
                lambda within_s: run_with_timeout(work, path=path, timeout_s=within_s)
            )
        except ReadTimedOut as error:
            self.problems.append(str(error))
            return otherwise

    def _in_time(self, work: Callable[[float], T]) -> T:
        begun_s = time.monotonic()
        try:
            return work(max(_LEAST_S, self._files_left_s))
        finally:
            self._files_left_s -= time.monotonic() - begun_s

    def prefixed(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """Return the variables whose names begin with `prefix`, without it, sorted."""
        names = sorted(name for name in self.environ if name.startswith(prefix) and name != prefix)
        return tuple((name.removeprefix(prefix), self.text(name)) for name in names)

    def _read(self, name: str, default: T, parse: Callable[[str], T]) -> T:
        text = self.environ.get(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            what = error if parse is parse_duration else f"{text!r} is not a number"
            self.problems.append(f"{name}: {what}")
            return default


def is_address(text: str) -> bool:
    """Return whether this is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
