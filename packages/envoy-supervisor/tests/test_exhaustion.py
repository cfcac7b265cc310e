"""A full disk, full shared memory, and a memory cgroup that kills: what is said, what goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from envoy_supervisor import (
    CrashPolicy,
    EnvoyState,
    EnvoySupervisorError,
    RestartRefused,
    running,
)
from mesh_lifecycle import Backoff
from mesh_testkit import PATIENCE_S, SmallDisk, small_disk, until
from supervised import Fake, FreePort, ProxyConfig, SlowApplication, serving

PATIENT = CrashPolicy(budget=100_000, backoff=Backoff(initial_s=0.01, maximum_s=0.02))


@pytest.fixture
def disk(socket_dir: Path) -> Iterator[SmallDisk]:
    with small_disk(socket_dir / "small") as mounted:
        yield mounted


async def test_a_full_disk_at_the_start_is_said(fake: Fake, disk: SmallDisk) -> None:
    directory = disk.path / "envoy"
    config, files = fake(directory=directory)
    disk.fill()
    with pytest.raises(
        EnvoySupervisorError,
        match=rf"cannot write {directory}/envoy-rev0\.json: No space left on device",
    ):
        async with running(config):
            pass
    assert files.starts() == []


async def test_an_envoy_that_crashes_while_the_disk_is_full_is_back_when_there_is_room(
    fake: Fake, disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    config, files = fake(directory=disk.path / "envoy", crashes=PATIENT)
    async with serving(config) as envoy:
        # Its end would make room for the next one's file.
        (config.directory / "envoy-rev0.json").unlink()
        disk.fill()
        os.kill(envoy.pid, signal.SIGKILL)
        await until(
            lambda: any("No space left" in str(r.__dict__.get("reason")) for r in caplog.records),
            what="word of the full disk",
            seen=lambda: caplog.messages,
        )
        assert str(envoy.state) == "starting"
        disk.free()
        await envoy.wait_ready(PATIENCE_S)
        assert str(envoy.state) == "ready"
    assert len(files.starts()) == 2
    assert list(config.directory.iterdir()) == []


async def test_a_restart_on_a_full_disk_leaves_the_old_envoy_running(
    fake: Fake, envoy_binary: Path, disk: SmallDisk
) -> None:
    config, _ = fake(binary=envoy_binary, directory=disk.path / "envoy", log_level="info")
    async with running(config) as envoy:
        pid = envoy.pid
        disk.fill()
        changed, _ = fake(binary=envoy_binary, directory=config.directory)
        with pytest.raises(EnvoySupervisorError, match=r"envoy-check\.json: No space left"):
            await envoy.restart(changed)
        os.kill(pid, 0)
        assert envoy.pid == pid
        assert envoy.status.crashes == 0


async def test_an_envoy_that_could_not_write_its_base_id_serves_and_is_not_replaced(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, disk: SmallDisk
) -> None:
    disk.fill()
    config = proxy_config(free_port(), application.port, directory=disk.path)
    assert isinstance(config.bootstrap, Path)
    async with serving(config) as envoy:
        config.bootstrap.write_text(config.bootstrap.read_text() + "\n")
        with pytest.raises(RestartRefused, match=r"base-id-\d+-0 .*disk full"):
            await envoy.restart()
        assert envoy.state is EnvoyState.READY
    assert [path.name for path in disk.path.iterdir()] == ["filler"]


SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from envoy_supervisor import CrashPolicy, EnvoyConfig, UnixAddress, running
from mesh_lifecycle import Backoff

async def main(binary: str, directory: Path) -> None:
    admin = UnixAddress(path=directory / "admin")
    bootstrap = directory / "bootstrap.json"
    config = EnvoyConfig(
        binary=Path(binary), bootstrap=bootstrap, directory=directory, admin=admin, concurrency=1,
        crashes=CrashPolicy(budget=100_000, backoff=Backoff(initial_s=0.01, maximum_s=0.02)),
    )
    async with running(config) as envoy:
        while (reason := envoy.status.last_crash) is None:
            await asyncio.sleep(0.01)
        print(reason, flush=True)
        sys.stdin.readline()
        await envoy.wait_ready(60)
        print("ready again", flush=True)

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


class Supervised:
    """A supervisor in a process of its own, behind a shell script that prepares the ground."""

    def __init__(self, ground: str, binary: Path, directory: Path) -> None:
        words = [sys.executable, "-c", SUPERVISOR, str(binary), str(directory)]
        self._process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", f'{ground}\nexec "$@"', "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def first_crash(self) -> str:
        assert self._process.stdout is not None
        if not (said := self._process.stdout.readline()):
            pytest.fail(f"the supervisor ended: {self._process.communicate()[1]}")
        return said

    def afterwards(self) -> str:
        """What it says once it may go on; returns when it has ended by itself."""
        said, complaints = self._process.communicate("\n", timeout=60)
        assert self._process.returncode == 0, complaints
        return said

    def close(self) -> None:
        with self._process:
            self._process.kill()


def minimal(admin: Path, clusters: int = 0) -> str:
    return json.dumps(
        {
            "admin": {"address": {"pipe": {"path": str(admin)}}},
            "static_resources": {
                "clusters": [{"name": f"cluster-{number}"} for number in range(clusters)]
            },
        }
    )


@pytest.fixture
def own_mounts() -> None:
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode != 0:
        pytest.skip(f"file systems cannot be mounted here: {tried.stderr.strip()}")


@pytest.mark.usefixtures("own_mounts")
def test_full_shared_memory_is_named_and_survived(envoy_binary: Path, socket_dir: Path) -> None:
    (socket_dir / "bootstrap.json").write_text(minimal(socket_dir / "admin"))
    shared = socket_dir / "shared"
    shared.mkdir()
    # Shared memory of its own, which we can reach from outside through the process's root.
    supervised = Supervised(
        "mount -t tmpfs -o size=64k tmpfs /dev/shm\n"
        "head -c 1000000 /dev/zero > /dev/shm/filler 2>/dev/null || true",
        envoy_binary,
        socket_dir,
    )
    try:
        said = supervised.first_crash()
        assert "crashed with SIGBUS because /dev/shm is full" in said
        Path(f"/proc/{supervised._process.pid}/root/dev/shm/filler").unlink()
        assert supervised.afterwards() == "ready again\n"
    finally:
        supervised.close()


@pytest.fixture
def memory_cgroup() -> Iterator[Path]:
    """A cgroup whose processes may use 160 MiB together, whichever layout the machine has."""
    root = Path("/sys/fs/cgroup")
    old = (root / "memory" / "memory.limit_in_bytes").exists()
    group = (root / "memory" if old else root) / f"envoy-supervisor-{uuid.uuid4().hex}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"a cgroup cannot be made here: {error}")
    try:
        limit = group / ("memory.limit_in_bytes" if old else "memory.max")
        if not limit.exists():
            pytest.skip(f"the memory controller is not enabled in {root}/cgroup.subtree_control")
        limit.write_text(str(160 << 20))
        for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
            if (swap := group / name).exists():
                swap.write_text(str(160 << 20) if old else "0")
        yield group
    finally:
        group.rmdir()


@pytest.mark.usefixtures("own_mounts")
def test_a_kill_by_the_memory_cgroup_is_named_and_survived(
    envoy_binary: Path, socket_dir: Path, memory_cgroup: Path
) -> None:
    bootstrap = socket_dir / "bootstrap.json"
    bootstrap.write_text(minimal(socket_dir / "admin", clusters=20_000))
    supervised = Supervised(f"echo $$ > {memory_cgroup}/cgroup.procs", envoy_binary, socket_dir)
    try:
        said = supervised.first_crash()
        assert "killed because its memory cgroup ran out (limit 160 MiB, peak 160 MiB)" in said
        bootstrap.write_text(minimal(socket_dir / "admin"))
        assert supervised.afterwards() == "ready again\n"
    finally:
        supervised.close()
