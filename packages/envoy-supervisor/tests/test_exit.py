from __future__ import annotations

from pathlib import Path

import pytest

from envoy_supervisor import ExitCause
from envoy_supervisor._exit import explain_exit
from envoy_supervisor._log import LogLine, parse_line
from envoy_supervisor._memory import watch_memory

REFUSED = (
    b"[critical][main] error `no such field: 'addres'` initializing config 'b.json'",
    b"no such field: 'addres'",
)
IN_USE = (
    b"[critical][main] error `cannot bind '127.0.0.1:80': Address already in use` initializing",
)
LIBRARY = (b"envoy: error while loading shared libraries: libatomic.so.1: cannot open",)


def lines(*output: bytes) -> list[LogLine]:
    return [parse_line(line) for line in output]


@pytest.mark.parametrize(
    ("returncode", "output", "told_to", "cause", "words"),
    [
        (0, (), True, ExitCause.STOPPED, "envoy was stopped"),
        (0, (), False, ExitCause.STOPPED, "exited by itself"),
        (1, REFUSED, False, ExitCause.BAD_CONFIGURATION, "refused its configuration: error `no"),
        (1, IN_USE, False, ExitCause.PORT_IN_USE, "cannot bind '127.0.0.1:80'"),
        (127, LIBRARY, False, ExitCause.MISSING_LIBRARY, "libatomic.so.1"),
        (1, (b"PARSE ERROR: Argument: --x",), False, ExitCause.BAD_CONFIGURATION, "arguments"),
        (3, (b"last words",), False, ExitCause.FAILED, "exited with status 3: last words"),
        (3, (), False, ExitCause.FAILED, "exited with status 3"),
        (-11, (b"[critical][main] bad",), False, ExitCause.CRASHED, "crashed with SIGSEGV: bad"),
        (-15, (), True, ExitCause.STOPPED, "ended by SIGTERM"),
        (-9, (), True, ExitCause.STOPPED, "did not exit in time and was killed"),
        (-9, (), False, ExitCause.KILLED, "out of memory"),
        (-60, (), False, ExitCause.CRASHED, "signal 60"),
    ],
)
def test_the_reason_is_one_sentence_with_envoys_own_words(
    returncode: int,
    output: tuple[bytes, ...],
    told_to: bool,  # noqa: FBT001
    cause: ExitCause,
    words: str,
) -> None:
    outcome = explain_exit(returncode, lines(*output), told_to=told_to)
    assert outcome.cause is cause
    assert words in outcome.reason
    assert "\n" not in outcome.reason
    assert (outcome.code, outcome.signal) == (
        (returncode, None) if returncode >= 0 else (None, -returncode)
    )


def cgroup(root: Path, **files: str) -> Path:
    directory = root / "pod"
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("_", ".", 1)).write_text(content)
    return directory


def test_a_kill_by_the_memory_cgroup_is_told_with_its_figures(tmp_path: Path) -> None:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text("0::/pod\n")
    root = tmp_path / "cgroup"
    figures = {"memory_max": str(128 << 20), "memory_peak": str(127 << 20)}
    cgroup(root, memory_events="oom 0\noom_kill 2\n", **figures)
    memory = watch_memory(7, proc=tmp_path / "proc", root=root)
    assert memory is not None
    before = explain_exit(-9, [], told_to=False, memory=memory)
    assert before.cause is ExitCause.KILLED
    assert "limit 128 MiB, peak 127 MiB" in before.reason
    cgroup(root, memory_events="oom 1\noom_kill 3\n")
    after = explain_exit(-9, [], told_to=False, memory=memory)
    assert after.cause is ExitCause.OUT_OF_MEMORY
    assert "limit 128 MiB" in after.reason


def test_the_older_cgroup_layout_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("5:cpu,cpuacct:/x\n3:memory:/host/path\n")
    directory = tmp_path / "cgroup" / "memory"
    directory.mkdir(parents=True)
    (directory / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 0\n")
    (directory / "memory.limit_in_bytes").write_text("9223372036854771712")
    memory = watch_memory(7, proc=tmp_path, root=tmp_path / "cgroup")
    assert memory is not None
    assert memory.figures() == "no cgroup limit"


def test_a_process_without_memory_cgroup_is_no_trouble(tmp_path: Path) -> None:
    assert watch_memory(7, proc=tmp_path, root=tmp_path) is None
