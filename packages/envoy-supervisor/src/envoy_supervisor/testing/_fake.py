"""Making the executable: a small launcher beside a file that says how to behave."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

_PROGRAM = Path(__file__).with_name("_program.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeEnvoy:
    """How the fake behaves; the default is a healthy Envoy with no connections.

    prints: written to stderr first of all.
    print_bytes: then this much more, in lines of a hundred characters.
    exits: exit with this status, after `exits_after_s`.
    crashes: end by this signal instead, after `exits_after_s`.
    never_ready: `/ready` answers 503 for ever.
    ready_after: `/ready` answers 503 this many times first.
    no_admin: listen nowhere.
    hangs: accept admin connections and never answer.
    ignores_sigterm: only SIGKILL ends it.
    connections: what the statistics say of open connections, reading by reading; the last stays.
    """

    prints: str = ""
    print_bytes: int = 0
    exits: int | None = None
    crashes: int | None = None
    exits_after_s: float = 0.0
    never_ready: bool = False
    ready_after: int = 0
    no_admin: bool = False
    hangs: bool = False
    ignores_sigterm: bool = False
    connections: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeEnvoyFiles:
    """The executable to give as Envoy's binary, and what it did."""

    binary: Path
    journal: Path

    def starts(self) -> list[list[str]]:
        """The arguments of each start."""
        return [arguments for kind, arguments in self._entries() if kind == "start"]

    def calls(self) -> list[str]:
        """The admin calls that change something, as `METHOD PATH`, over all starts."""
        return [call[0] for kind, call in self._entries() if kind == "call"]

    def _entries(self) -> list[tuple[str, list[str]]]:
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]


def fake_envoy(directory: Path, behaviour: FakeEnvoy | None = None) -> FakeEnvoyFiles:
    """Write the executable into `directory`, which is created if it is missing.

    Calling it again changes how later starts behave.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = FakeEnvoyFiles(binary=directory / "envoy", journal=directory / "journal")
    settings = directory / "behaviour.json"
    settings.write_text(json.dumps(asdict(behaviour or FakeEnvoy())))
    words = [sys.executable, "-I", "-S", str(_PROGRAM), str(settings), str(files.journal)]
    files.binary.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    files.binary.chmod(0o755)
    return files
