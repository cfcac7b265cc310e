"""Jobs end: the agent ends with a process, and with the application that it starts itself."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mesh_testkit import until
from running_agents import AgentProcess, agent_process, ask, own_address


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def until_ready(agent: AgentProcess) -> None:
    async def ready() -> bool:
        assert agent.process.returncode is None, agent.said()
        return (await ask(own_address(), 15020, "/healthz/ready"))[0] == 200

    await until(ready, what="the agent to be ready", seen=agent.said)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)]
)
async def test_the_agent_ends_with_the_application_s_exit_status(
    socket_dir: Path, envoy_binary: Path, script: str, status: int
) -> None:
    command = f'read line; echo "application: $line, pid $$"; {script}'
    async with agent_process(
        socket_dir, envoy_binary, "--", "/bin/sh", "-c", command, stdin=b"hello\n"
    ) as agent:
        assert await agent.wait() == status
        assert "application: hello, pid " in agent.said(), "its input and output are the agent's"
        assert agent.left_behind() == []
        assert agent.said().index("ready") < agent.said().index("application: hello")


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("/no/such/program", 127, "there is no such program"),
        ("/etc/passwd", 126, "permission denied"),
    ],
)
async def test_an_application_that_can_not_be_started_is_one_sentence(
    socket_dir: Path, envoy_binary: Path, program: str, status: int, reason: str
) -> None:
    async with agent_process(socket_dir, envoy_binary, "--", program) as agent:
        assert await agent.wait() == status
        lines = [line for line in agent.said().splitlines() if line.startswith("mesh-agent: ")]
        assert lines == [f"mesh-agent: the application {program} can't be started: {reason}"]
        assert "Traceback" not in agent.said()
        assert agent.left_behind() == []


async def test_the_application_is_started_when_the_agent_is_ready_and_not_before(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with agent_process(
        socket_dir, envoy_binary, "--", "/bin/echo", "application runs", ready=False
    ) as agent:
        await until(lambda: "agent started" in agent.said(), what="the agent's start")
        await asyncio.sleep(0.5)
        assert "application runs" not in agent.said()
        agent.process.terminate()
        assert await agent.wait() == 143, "the job was not done"


async def test_a_stop_is_passed_to_the_application_first_and_waits_for_it(
    socket_dir: Path, envoy_binary: Path
) -> None:
    on_stop = "echo ASKED; sleep 0.5; exit 5"
    command = f"trap '{on_stop}' TERM; echo APPLICATION-UP; while :; do sleep 0.1; done"
    async with agent_process(socket_dir, envoy_binary, "--", "/bin/sh", "-c", command) as agent:
        await until(
            lambda: "APPLICATION-UP" in agent.said(), what="the application", seen=agent.said
        )
        agent.process.terminate()
        assert await agent.wait() == 5
        assert "ASKED" in agent.said()
        assert agent.left_behind() == []


async def test_a_deaf_application_is_killed(socket_dir: Path, envoy_binary: Path) -> None:
    command = "trap '' TERM; echo APPLICATION-UP; while :; do sleep 0.1; done"
    async with agent_process(
        socket_dir,
        envoy_binary,
        *("--", "/bin/sh", "-c", command),
        MESH_AGENT_APPLICATION_STOP_TIMEOUT="1s",
    ) as agent:
        await until(
            lambda: "APPLICATION-UP" in agent.said(), what="the application", seen=agent.said
        )
        agent.process.terminate()
        assert await agent.wait() == 137


async def test_the_application_has_the_environment_that_the_agent_was_given(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with agent_process(
        socket_dir, envoy_binary, "--", "/usr/bin/env", GREETING="hello"
    ) as agent:
        assert await agent.wait() == 0
        assert "GREETING=hello" in agent.said()
        assert "GRPC_VERBOSITY=" not in agent.said()


async def test_nothing_behind_the_dashes_is_a_mistake(socket_dir: Path, envoy_binary: Path) -> None:
    async with agent_process(socket_dir, envoy_binary, "--") as agent:
        assert await agent.wait() == 2
        assert "nothing follows --" in agent.said()


async def test_the_agent_ends_with_a_process_by_its_id(
    socket_dir: Path, envoy_binary: Path
) -> None:
    job = await asyncio.create_subprocess_exec("/bin/sleep", "1000")
    try:
        async with agent_process(socket_dir, envoy_binary, "--exit-with", str(job.pid)) as agent:
            await until_ready(agent)
            envoys = children_of(agent.process.pid)
            job.kill()
            assert await agent.wait() == 0
            assert not any(map(alive, envoys))
            assert agent.left_behind() == []
    finally:
        if job.returncode is None:
            job.kill()
        await job.wait()


async def test_the_agent_ends_with_a_process_by_its_name_that_starts_later(
    socket_dir: Path, envoy_binary: Path
) -> None:
    program = socket_dir / f"job-{os.getpid()}"
    shutil.copy("/bin/sleep", program)
    async with agent_process(socket_dir, envoy_binary, MESH_AGENT_EXIT_WITH=program.name) as agent:
        await until_ready(agent)
        job = await asyncio.create_subprocess_exec(program, "1000")
        await until(lambda: str(job.pid) in agent.said(), what="the job to be found")
        job.kill()
        await job.wait()
        assert await agent.wait() == 0
        assert agent.left_behind() == []


async def test_an_id_that_no_process_has_is_a_mistake(socket_dir: Path, envoy_binary: Path) -> None:
    done = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, check=True)  # noqa: ASYNC221
    pid = done.stdout.decode().strip()
    async with agent_process(socket_dir, envoy_binary, "--exit-with", pid) as agent:
        assert await agent.wait() == 1
        assert f"mesh-agent: there is no process {pid} to end with" in agent.said()


async def test_the_application_is_ended_when_envoy_ends_for_good(
    socket_dir: Path, envoy_binary: Path
) -> None:
    command = "trap 'echo ASKED; exit 0' TERM; echo APPLICATION-UP; while :; do sleep 0.1; done"
    async with agent_process(
        socket_dir,
        envoy_binary,
        *("--", "/bin/sh", "-c", command),
        MESH_AGENT_RESTART_ENVOY="false",
    ) as agent:
        await until(
            lambda: "APPLICATION-UP" in agent.said(), what="the application", seen=agent.said
        )
        envoy = next(
            pid
            for pid in children_of(agent.process.pid)
            if b"envoy-rev" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(envoy, signal.SIGKILL)
        assert await agent.wait() == 1
        assert "ASKED" in agent.said()
        assert "mesh-agent: envoy ended by itself" in agent.said()


def test_an_application_and_a_process_to_end_with_are_one_too_many(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mesh_agent", "proxy", "--exit-with", "job", "--", "/bin/true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "leave one of both out" in done.stderr
