"""The command, as a process of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from envoy_supervisor.testing import FakeEnvoy, fake_envoy
from mesh_testkit import PATIENCE_S


@contextmanager
def command(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "envoy_supervisor", *map(str, arguments)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if words in line:
            return line
    pytest.fail(f"{words!r} was never said, but:\n{''.join(said)}")


@pytest.fixture
def bootstrap(socket_dir: Path) -> Path:
    path = socket_dir / "bootstrap.json"
    path.write_text(json.dumps({"admin": {"address": {"pipe": {"path": f"{socket_dir}/admin"}}}}))
    return path


def pid_in(line: str) -> int:
    return int(line.split("pid=")[1].split(maxsplit=1)[0])


def test_run_supervises_until_a_signal_and_follows_the_file(
    bootstrap: Path, envoy_binary: Path, socket_dir: Path
) -> None:
    config: dict[str, Any] = json.loads(bootstrap.read_text())
    arguments = ["run", "-c", bootstrap, "--envoy", envoy_binary, "--parent-shutdown-s", "1"]
    with command(*arguments, "--directory", socket_dir / "run") as process:
        first = pid_in(until(process, "envoy is ready"))
        config["node"] = {"id": "x", "cluster": "y"}
        bootstrap.write_text(json.dumps(config))
        assert pid_in(until(process, "envoy is ready")) != first
        process.send_signal(signal.SIGHUP)
        until(process, "nothing changed")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert list((socket_dir / "run").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_envoy_is_ready_ends_it(
    bootstrap: Path, socket_dir: Path, number: signal.Signals
) -> None:
    files = fake_envoy(socket_dir / "fake", FakeEnvoy(never_ready=True))
    with command("run", "-c", bootstrap, "--envoy", files.binary) as process:
        until(process, "envoy started")
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0


def test_a_second_signal_means_hurry(bootstrap: Path, socket_dir: Path) -> None:
    files = fake_envoy(socket_dir / "fake", FakeEnvoy(connections=(1,)))
    arguments = ["run", "-c", bootstrap, "--envoy", files.binary, "--drain-s", "3600"]
    with command(*arguments) as process:
        until(process, "envoy is ready")
        process.terminate()
        until(process, "envoy is draining")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        (FakeEnvoy(exits=7, prints="no luck\n"), 7, "exited with status 7: no luck"),
        (FakeEnvoy(crashes=signal.SIGSEGV), 128 + 11, "crashed with SIGSEGV"),
        (FakeEnvoy(exits=0), 0, "exited by itself"),
    ],
    ids=["exit", "crash", "quit"],
)
def test_the_end_of_envoy_is_the_end_of_the_command(
    bootstrap: Path, socket_dir: Path, behaviour: FakeEnvoy, status: int, words: str
) -> None:
    files = fake_envoy(socket_dir / "fake", behaviour)
    with command(
        *("run", "-c", bootstrap, "--envoy", files.binary, "--crash-budget", "1")
    ) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status
        last = output.splitlines()[-1]
        assert words in last
        assert ("the crash budget of one new start in 120 s is used up" in last) is (status != 0)
    assert len(files.starts()) == (1 if status == 0 else 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-c", "missing.json"], "cannot read the bootstrap file missing.json: No such file"),
        (["-c", "missing.json", "--envoy", "/none"], "the path given names /none, which does not"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(arguments: list[str], words: str) -> None:
    with command("run", *arguments) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert words in output
        assert len(output.splitlines()) == 1


def test_killing_the_command_kills_envoy(
    bootstrap: Path, envoy_binary: Path, socket_dir: Path
) -> None:
    arguments = ["run", "-c", bootstrap, "--envoy", envoy_binary]
    with command(*arguments) as process:
        envoy = os.pidfd_open(pid_in(until(process, "envoy is ready")))
        try:
            process.kill()
            assert select.select([envoy], [], [], PATIENCE_S)[0]
        finally:
            os.close(envoy)
    (left,) = Path(tempfile.gettempdir()).glob(f"envoy-supervisor-{process.pid}-*")
    (base_id,) = left.glob(f"base-id-{process.pid}-0")
    memory = Path(f"/dev/shm/envoy_shared_memory_{base_id.read_text()}0")
    assert memory.exists()
    # The next one tidies up, whatever it does itself.
    with command("run", "-c", "missing.json") as process:
        process.communicate(timeout=PATIENCE_S)
    assert not left.exists()
    assert not memory.exists()
    (socket_dir / "admin").unlink()
