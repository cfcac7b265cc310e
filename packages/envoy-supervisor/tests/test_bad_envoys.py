"""Envoys that behave badly, seen from outside: exit status, the sentence, and what is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envoy_supervisor.testing import FakeEnvoy, fake_envoy
from mesh_testkit import PATIENCE_S

TEN_MEGABYTES = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Command:
    """`python -m envoy_supervisor run` with a temporary directory of its own."""

    process: subprocess.Popen[str]
    temporary: Path

    def until(self, words: str) -> None:
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if words in line:
                return
        pytest.fail(f"{words!r} was never said, but:\n{''.join(said)}")

    def ended(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        # What a supervisor leaves is here, in files; its processes and their memory by its group.
        assert list(self.temporary.iterdir()) == []
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)
        return self.process.returncode, output


@pytest.fixture
def bootstrap(socket_dir: Path) -> Path:
    path = socket_dir / "bootstrap.json"
    path.write_text(json.dumps({"admin": {"address": {"pipe": {"path": f"{socket_dir}/admin"}}}}))
    return path


@contextmanager
def command(bootstrap: Path, binary: Path, *arguments: str) -> Iterator[Command]:
    with tempfile.TemporaryDirectory(prefix="es-") as temporary:
        words = [sys.executable, "-m", "envoy_supervisor", "run", "-c", str(bootstrap)]
        process = subprocess.Popen(
            [*words, "--envoy", str(binary), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": temporary},
        )
        with process:
            try:
                yield Command(process=process, temporary=Path(temporary))
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("behaviour", "status", "sentence"),
    [
        (FakeEnvoy(exits=7, prints="no luck\n"), 7, "envoy exited with status 7: no luck"),
        (FakeEnvoy(exits=7, exits_after_s=0.5), 7, "envoy exited with status 7"),
        (FakeEnvoy(exits=0), 0, "envoy exited by itself (something told it to)"),
        (FakeEnvoy(crashes=signal.SIGKILL), 137, "envoy was killed by SIGKILL, which did not come"),
        (FakeEnvoy(crashes=signal.SIGABRT), 134, "envoy crashed with SIGABRT"),
        (FakeEnvoy(exits=1, print_bytes=TEN_MEGABYTES), 1, "envoy exited with status 1: xxxx"),
        (
            FakeEnvoy(exits=1, prints="[critical][main] error `x` initializing config 'y'\n"),
            1,
            "envoy refused its configuration: error `x` initializing config 'y'",
        ),
        (
            FakeEnvoy(exits=127, prints="error while loading shared libraries: libx.so\n"),
            127,
            "envoy cannot run on this system, a library is missing: error while loading",
        ),
    ],
    ids=["at once", "later", "quits", "killed", "aborts", "10 MB", "configuration", "library"],
)
def test_an_envoy_that_ends_gives_its_status_and_one_sentence(
    bootstrap: Path, socket_dir: Path, behaviour: FakeEnvoy, status: int, sentence: str
) -> None:
    files = fake_envoy(socket_dir / "fake", behaviour)
    with command(bootstrap, files.binary, "--crash-budget", "0") as run:
        code, output = run.ended()
    assert code == status
    assert output.splitlines()[-1].startswith(f"envoy-supervisor: {sentence}")
    assert len(files.starts()) == 1
    # A flood is counted, not repeated: how much of it is logged depends on how long it takes.
    logged = sum("\t" + "x" * 83 in line for line in output.splitlines())
    left_out = sum(map(int, re.findall(r"lines_left_out=(\d+)", output)))
    assert logged + left_out == behaviour.print_bytes // 100
    assert (left_out > 0) is (behaviour.print_bytes > 0)


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (None, "the path given names {binary}, which does not exist"),
        (0o644, "the path given names {binary}, which is not an executable file"),
        (0o755, "cannot execute {binary}: it is no program for this machine"),
    ],
    ids=["missing", "not executable", "no program"],
)
def test_what_is_no_envoy_is_named(
    bootstrap: Path, socket_dir: Path, mode: int | None, sentence: str
) -> None:
    binary = socket_dir / "envoy"
    if mode is not None:
        binary.write_bytes(b"\x00\x01\x02")
        binary.chmod(mode)
    with command(bootstrap, binary) as run:
        code, output = run.ended()
    assert code == 1
    assert output.splitlines()[-1].startswith(f"envoy-supervisor: {sentence.format(binary=binary)}")


@pytest.mark.parametrize(
    ("behaviour", "state", "said"),
    [
        (FakeEnvoy(ignores_sigterm=True), "envoy is ready", "envoy does not exit, killing it"),
        (FakeEnvoy(never_ready=True), "envoy started", "stopping"),
        (FakeEnvoy(hangs=True), "envoy started", "stopping"),
    ],
    ids=["ignores SIGTERM", "never ready", "hangs"],
)
def test_an_envoy_that_will_not_listen_is_ended_all_the_same(
    bootstrap: Path, socket_dir: Path, behaviour: FakeEnvoy, state: str, said: str
) -> None:
    files = fake_envoy(socket_dir / "fake", behaviour)
    # Far longer than the test may take: it is not waited for.
    with command(bootstrap, files.binary, "--drain-s", "3600") as run:
        run.until(state)
        run.process.terminate()
        code, output = run.ended()
    assert code == 0
    assert said in output
