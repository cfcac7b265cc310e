"""The memory cgroup's files, on trees laid out as the kernel lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from envoy_supervisor import ExitCause
from envoy_supervisor.processes._exit_reason import explain_exit
from envoy_supervisor.processes._memory_cgroup import MemoryWatch, watch_memory

MIB = 1 << 20
NONE = "max\n"


def events(oom_kill: int) -> str:
    return (
        f"low 0\nhigh 0\nmax 17\noom {oom_kill}\noom_kill {oom_kill}\noom_group_kill 0\n"
        "sock_throttled 0\n"
    )


class Unified:
    """A machine with the unified layout (v2) and one process, number 7."""

    def __init__(self, place: Path) -> None:
        self.proc, self.root = place / "proc", place / "cgroup"
        (self.proc / "7").mkdir(parents=True)
        self.root.mkdir()
        # The real root has no files of its own on how much memory is used and allowed.
        (self.root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")

    def group(self, path: str, *, limit: int | None = None, peak: int = 0, kills: int = 0) -> Path:
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "memory.max").write_text(NONE if limit is None else f"{limit}\n")
        (directory / "memory.peak").write_text(f"{peak}\n")
        (directory / "memory.events").write_text(events(kills))
        return directory

    def watch(self, path: str) -> MemoryWatch | None:
        (self.proc / "7" / "cgroup").write_text(f"0::{path}\n")
        return watch_memory(7, proc=self.proc, root=self.root)


@pytest.fixture
def unified(tmp_path: Path) -> Unified:
    return Unified(tmp_path)


def test_a_kill_is_reported_with_its_figures(unified: Unified) -> None:
    unified.group("pod", limit=128 * MIB, peak=127 * MIB, kills=2)
    memory = unified.watch("/pod")
    before = explain_exit(-9, [], asked_to_exit=False, memory=memory)
    assert before.cause is ExitCause.KILLED
    assert "limit 128 MiB, peak 127 MiB" in before.reason
    unified.group("pod", limit=128 * MIB, peak=128 * MIB, kills=3)
    after = explain_exit(-9, [], asked_to_exit=False, memory=memory)
    assert after.cause is ExitCause.OUT_OF_MEMORY
    assert "ran out (limit 128 MiB, peak 128 MiB)" in after.reason


@pytest.mark.parametrize(
    ("limits", "figures"),
    [
        ((None, None, None), "no cgroup limit, peak 3 MiB"),
        ((None, None, 64 * MIB), "limit 64 MiB, peak 3 MiB"),
        ((None, 64 * MIB, None), "limit 64 MiB, peak 2 MiB"),
        ((64 * MIB, None, None), "limit 64 MiB, peak 1 MiB"),
        ((64 * MIB, 32 * MIB, 96 * MIB), "limit 32 MiB, peak 2 MiB"),
        ((32 * MIB, 64 * MIB, 96 * MIB), "limit 32 MiB, peak 1 MiB"),
    ],
    ids=["none", "own", "parent", "grandparent", "the parent's is least", "the topmost is least"],
)
def test_the_tightest_limit_counts_wherever_it_stands(
    unified: Unified, limits: tuple[int | None, ...], figures: str
) -> None:
    outer, middle, own = limits
    unified.group("pods", limit=outer, peak=1 * MIB)
    unified.group("pods/pod", limit=middle, peak=2 * MIB)
    unified.group("pods/pod/container", limit=own, peak=3 * MIB)
    memory = unified.watch("/pods/pod/container")
    assert memory is not None
    assert memory.figures() == figures
    assert memory.limit == min((limit for limit in limits if limit is not None), default=None)


def test_a_kill_for_a_limit_further_up_is_seen(unified: Unified) -> None:
    unified.group("pods", limit=64 * MIB, peak=64 * MIB, kills=4)
    unified.group("pods/envoy", kills=0)
    memory = unified.watch("/pods/envoy")
    # Somebody else below the same limit is killed; then it is our turn, and the kernel counts it
    # in the victim's own cgroup and in all above.
    unified.group("pods", limit=64 * MIB, peak=64 * MIB, kills=5)
    assert explain_exit(-9, [], asked_to_exit=False, memory=memory).cause is ExitCause.KILLED
    unified.group("pods", limit=64 * MIB, peak=64 * MIB, kills=6)
    unified.group("pods/envoy", kills=1)
    explanation = explain_exit(-9, [], asked_to_exit=False, memory=memory)
    assert explanation.cause is ExitCause.OUT_OF_MEMORY
    assert "limit 64 MiB, peak 64 MiB" in explanation.reason


def test_a_cgroup_that_has_no_memory_controller_counts_with_the_one_above(
    unified: Unified,
) -> None:
    unified.group("service", limit=64 * MIB, peak=5 * MIB)
    (unified.root / "service" / "threads").mkdir()
    memory = unified.watch("/service/threads")
    assert memory is not None
    assert memory.figures() == "limit 64 MiB, peak 5 MiB"


def test_a_kernel_that_keeps_no_peak_leaves_it_out(unified: Unified) -> None:
    (unified.group("pod", limit=64 * MIB) / "memory.peak").unlink()
    memory = unified.watch("/pod")
    assert memory is not None
    assert memory.figures() == "limit 64 MiB"


def test_inside_a_container_the_mount_is_our_own_cgroup(unified: Unified) -> None:
    unified.group("", limit=64 * MIB, peak=1 * MIB)
    for path in ("/", "/kubepods.slice/pod7/the-hosts-name"):
        memory = unified.watch(path)
        assert memory is not None
        assert memory.limit == 64 * MIB


def test_a_cgroup_outside_of_our_namespace_is_not_ours_to_read(unified: Unified) -> None:
    unified.group("", limit=64 * MIB)
    assert unified.watch("/../neighbour") is None


def test_what_a_limit_is_written_as_is_no_trouble(unified: Unified) -> None:
    directory = unified.group("pod", limit=1)
    (directory / "memory.max").write_text("a lot\n")
    (directory / "memory.events").write_text("oom_kill many\n")
    memory = unified.watch("/pod")
    assert memory is not None
    assert memory.limit is None
    assert not memory.killed()


def test_the_older_layout_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("5:cpu,cpuacct:/x\n3:memory:/host/path\n0::/x\n")
    directory = tmp_path / "cgroup" / "memory"
    directory.mkdir(parents=True)
    (directory / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 0\n")
    (directory / "memory.limit_in_bytes").write_text("9223372036854771712")
    memory = watch_memory(7, proc=tmp_path, root=tmp_path / "cgroup")
    assert memory is not None
    assert memory.figures() == "no cgroup limit"
    (directory / "host" / "path").mkdir(parents=True)
    (directory / "host" / "path" / "memory.oom_control").write_text("oom_kill 0\n")
    (directory / "host" / "path" / "memory.limit_in_bytes").write_text(str(32 * MIB))
    (directory / "host" / "path" / "memory.max_usage_in_bytes").write_text(str(31 * MIB))
    memory = watch_memory(7, proc=tmp_path, root=tmp_path / "cgroup")
    assert memory is not None
    assert memory.figures() == "limit 32 MiB, peak 31 MiB"


def test_a_process_without_memory_cgroup_is_no_trouble(tmp_path: Path) -> None:
    assert watch_memory(7, proc=tmp_path, root=tmp_path) is None
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("2:pids:/x\n0::/x\n")
    assert watch_memory(7, proc=tmp_path, root=tmp_path) is None
