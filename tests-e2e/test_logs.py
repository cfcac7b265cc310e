"""The log of an agent and its Envoy, as who collects it sees it."""

import asyncio
import http.client
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_e2e import (
    ROOT,
    TOKEN,
    Agent,
    children_of,
    environment_of,
    own_address,
    put,
    run_command,
    running_agent,
    servers,
)
from mesh_testkit import PATIENCE_S, until

Record = Callable[[str, object], None]
LEVELS = ("debug", "info", "warning", "error", "critical")


def provide(directory: Path, root_pem: bytes) -> Path:
    put(directory, TOKEN, "token")
    put(directory, ROOT, root_pem)
    return directory


async def ask(agent: Agent, method: str, port: int, path: str) -> tuple[int, bytes]:
    def exchange() -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(agent.address, port, timeout=PATIENCE_S)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


async def until_envoy_answers(agent: Agent) -> None:
    async def answers() -> bool:
        try:
            return (await ask(agent, "GET", 15000, "/server_info"))[0] == 200
        except OSError:
            return False

    await until(answers, what="Envoy's admin interface")


async def test_agent_and_envoy_log_the_same_json(tmp_path: Path, record: Record) -> None:
    async with servers(tmp_path) as both:
        directory = provide(tmp_path / "agent", both.root_pem)
        environment = environment_of(both, own_address(1))
        flags = ("--log_as_json", "--proxyLogLevel", "debug", "--log_output_level", "all:debug")
        async with running_agent(directory, environment, *flags) as agent:
            await until_envoy_answers(agent)
            await ask(agent, "POST", 15000, "/logging?level=info")
        lines = agent.log.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    for entry in entries:
        assert all(isinstance(entry[key], str) for key in ("time", "level", "scope", "msg")), entry
        assert entry["level"] in LEVELS, entry
    envoys = [entry for entry in entries if entry["scope"].startswith("envoy ")]
    assert len(envoys) > 100
    assert all({"caller", "thread_id", "pid"} <= entry.keys() for entry in envoys)
    assert {"mesh_agent._agent", "xds_proxy"} <= {entry["scope"] for entry in entries}
    record("lines", f"{len(entries)}, of them Envoy's {len(envoys)}")


async def test_agent_and_envoy_log_the_same_columns(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        directory = provide(tmp_path / "agent", both.root_pem)
        environment = environment_of(both, own_address(2))
        async with running_agent(directory, environment, "--proxyLogLevel", "info") as agent:
            await until_envoy_answers(agent)
        lines = [line.split("\t") for line in agent.log.read_text().splitlines()]
    assert all(line[1] in LEVELS and len(line) in (4, 5) for line in lines), lines
    times = [line[0] for line in lines]
    assert all(len(time) == len("2026-01-02T03:04:05.678Z") and time[-1] == "Z" for time in times)
    assert any(line[2] == "envoy main" and "caller=" in line[4] for line in lines)


async def test_levels_are_changed_while_the_agent_runs(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        directory = provide(tmp_path / "agent", both.root_pem)
        environment = environment_of(both, own_address(3))
        async with running_agent(directory, environment) as agent:
            await until_envoy_answers(agent)
            status, output, errors = await run_command(
                *("mesh_agent_cli", "request", "--address", agent.address),
                *("--debug-port", "15020", "POST", "debug/logging?probes=debug"),
                environment=os.environ,
                directory=directory,
            )
            assert status == 0, errors
            assert json.loads(output)["probes"] == "debug"
            assert b'"sds": "info"' in (await ask(agent, "GET", 15020, "/debug/logging"))[1]
            # Envoy's levels stay Envoy's: its debug lines come although the agent is at info.
            assert "\tdebug\tenvoy " not in agent.log.read_text()
            await ask(agent, "POST", 15000, "/logging?level=debug")
            await ask(agent, "GET", 15000, "/stats?filter=nothing")
            await until(
                lambda: "\tdebug\tenvoy " in agent.log.read_text(), what="a debug line of Envoy's"
            )


async def test_moved_log_files_are_opened_anew_and_the_signal_ends_nothing(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        directory = provide(tmp_path / "agent", both.root_pem)
        log, aside = directory / "own.log", directory / "own.log.1"
        flags = ("--log_target", str(log), "--log_as_json")
        async with running_agent(directory, environment_of(both, own_address(4)), *flags) as agent:
            await until_envoy_answers(agent)
            log.rename(aside)
            agent.process.send_signal(signal.SIGUSR1)
            await ask(agent, "POST", 15020, "/debug/logging?level=debug")
            await until(lambda: log.exists() and "log levels" in log.read_text(), what="a line")
            (envoy,) = children_of(agent.process.pid)
            assert (await ask(agent, "GET", 15000, "/server_info"))[0] == 200
            assert envoy in children_of(agent.process.pid)
        assert "agent stopped" in log.read_text()
        assert "agent stopped" not in aside.read_text()
        assert agent.log.read_text() == ""


@pytest.mark.slow
async def test_a_log_that_is_not_read_does_not_hold_up_the_agent(
    tmp_path: Path, socket_dir: Path, record: Record
) -> None:
    """The container's log pipe is full, and Envoy and agent log at debug level: all still works."""
    async with servers(tmp_path) as both:
        directory = provide(socket_dir, both.root_pem)
        address = own_address(5)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mesh_agent", "proxy", "--log_output_level", "all:debug"),
            *("--proxyLogLevel", "trace", "--log_as_json"),
            env=environment_of(both, address),
            cwd=directory,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 10,  # no more than this is read, and then the pipe fills
        )
        agent = Agent(process=process, directory=directory, address=address, log=Path(os.devnull))
        try:
            await until_envoy_answers(agent)
            for _ in range(300):  # each is some tens of lines of Envoy's
                assert (await ask(agent, "GET", 15000, "/server_info"))[0] == 200
                assert (await ask(agent, "GET", 15020, "/debug/logging"))[0] == 200
            assert (await agent.status())["envoy"]
        finally:
            process.terminate()
            read = asyncio.create_task(_rest(process))
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
            text = await read
    *lines, last = text.splitlines()
    entries = [json.loads(line) for line in (*lines, last)]
    lost = sum(e["count"] for e in entries if e["msg"] == "log records were lost")
    left_out = sum(e.get("lines_left_out", 0) for e in entries)
    assert len(text) > 4 << 16, "a pipe would have held all of it"
    record("lines written, lost, left out", f"{len(entries)}, {lost}, {left_out}")


async def _rest(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.read()).decode()
