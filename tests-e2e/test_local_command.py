"""`mesh-local` as its users run it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh_e2e import ECHO, alive, children_of, command_line, last_words, run_command
from mesh_testkit import until

EXAMPLE = Path(__file__).parents[1] / "examples" / "two-services" / "mesh.yaml"
WHOLE_MESH_S = 180.0
"""For one that is started, checked and stopped; a guard, longer than mesh-local's own."""


@asynccontextmanager
async def mesh_local_up(file: Path, state: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `mesh-local up`, and see to it that it is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mesh_local",
        "up",
        str(file),
        "--state-dir",
        str(state),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def descendants_of(pid: int) -> frozenset[int]:
    found: set[int] = set()
    for child in children_of(pid):
        found |= {child, *descendants_of(child)}
    return frozenset(found)


def write_mesh(directory: Path) -> Path:
    file = directory / "mesh.yaml"
    file.write_text(
        "workloads:\n"
        f"  - {{name: backend, ports: [{{port: 8080}}], command: [{sys.executable}, {ECHO}]}}\n"
        "  - {name: caller, command: [sh, -c, 'sleep 1000; true']}\n"
    )
    return file


async def until_all_run(pid: int, state: Path) -> frozenset[int]:
    """Wait for the guard, the control plane, two agents, two Envoys, two programs and a child."""
    log = state / "logs" / "mesh-local.log"
    await until(
        lambda: len(descendants_of(pid)) == 9 and 'child="caller"' in log.read_text(),
        what="nine processes",
        seen=lambda: [*map(command_line, descendants_of(pid)), last_words([log])],
    )
    return descendants_of(pid)


async def test_the_example_passes_its_checks_and_prints_each_step(tmp_path: Path) -> None:
    status, output, errors = await run_command(
        "mesh_local",
        "up",
        str(EXAMPLE),
        "--once",
        "--state-dir",
        str(tmp_path / "state"),
        environment=os.environ,
        directory=tmp_path,
        timeout_s=WHOLE_MESH_S,
    )
    assert (status, errors) == (0, "")
    assert "mutual TLS" in output
    assert "saw the caller as spiffe://cluster.local/ns/shop/sa/frontend" in output
    assert "certificate: serial" in output
    assert "All checks passed" in output


@pytest.mark.slow
async def test_a_check_that_does_not_hold_fails_the_run(tmp_path: Path) -> None:
    file = write_mesh(tmp_path)
    with file.open("a") as opened:
        opened.write(
            "checks:\n  - name: the callee answers\n    from: caller\n"
            "    request: GET http://backend:8080/\n    expect: {status: 404}\n"
        )
    status, output, _ = await run_command(
        *("mesh_local", "up", str(file), "--once"),
        environment=os.environ,
        directory=tmp_path,
        timeout_s=WHOLE_MESH_S,
    )
    assert status == 1
    assert "the callee answers: FAILED" in output
    assert "wrong: expected status 404, got 200" in output


@pytest.mark.slow
async def test_a_program_that_ends_fails_the_run_with_its_last_output(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(
        "workloads:\n  - name: broken\n    ports: [{port: 8080}]\n"
        "    command: [sh, -c, 'echo no database; exit 3']\n"
    )
    status, _, errors = await run_command(
        *("mesh_local", "up", str(file), "--once"),
        environment=os.environ,
        directory=tmp_path,
        timeout_s=WHOLE_MESH_S,
    )
    assert status == 1
    assert errors.startswith("mesh-local: broken ended by itself (exit code 3)\n")
    assert errors.endswith("broken.log:\n  no database\n")


@pytest.mark.slow
async def test_of_several_the_program_that_ended_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(
        "workloads:\n  - name: well\n"
        "    command: [sh, -c, 'trap \"sleep 1; exit\" TERM; while :; do sleep 0.1; done']\n"
        "  - name: broken\n    command: [sh, -c, 'sleep 1; echo no database; exit 3']\n"
        # It is never ready, so that the run lasts until the other has ended.
        "  - {name: late, ports: [{port: 8080}], command: [sleep, '600']}\n"
    )
    status, _, errors = await run_command(
        *("mesh_local", "up", str(file), "--once"),
        environment=os.environ,
        directory=tmp_path,
        timeout_s=WHOLE_MESH_S,
    )
    assert status == 1
    assert errors.startswith("mesh-local: broken ended by itself (exit code 3)\n")
    assert errors.endswith("broken.log:\n  no database\n")


@pytest.mark.slow
async def test_one_signal_stops_everything_in_order(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with mesh_local_up(write_mesh(tmp_path), state) as process:
        running = await until_all_run(process.pid, state)
        process.send_signal(signal.SIGINT)
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
    assert not any(map(alive, running))
    assert b"stopped" in output
    stops = [
        line.split('child="')[1].split('"')[0]
        for line in (state / "logs" / "mesh-local.log").read_text().splitlines()
        if "process stopped" in line
    ]
    assert stops[0] == "caller", "what only calls others stops first"
    assert set(stops[1:3]) == {"backend agent", "caller agent"}
    assert stops[3:] == ["backend", "control-plane"]


@pytest.mark.slow
async def test_nothing_outlives_a_killed_mesh_local(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with mesh_local_up(write_mesh(tmp_path), state) as process:
        running = await until_all_run(process.pid, state)
        process.kill()
        await process.communicate()
        await until(lambda: not any(map(alive, running)), what="the end of all processes")
    for socket in [path for path in state.rglob("*") if path.is_socket()]:
        socket.unlink()  # a killed process removes nothing; the next run does


@pytest.mark.slow
async def test_a_program_that_dies_comes_back(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with mesh_local_up(write_mesh(tmp_path), state) as process:
        running = await until_all_run(process.pid, state)
        (program,) = (
            pid
            for pid in running
            if str(ECHO).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(program, signal.SIGKILL)
        log = state / "logs" / "mesh-local.log"
        await until(lambda: "starting it again" in log.read_text(), what="word of the restart")
        again = await until_all_run(process.pid, state)
        assert program not in again
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 0
