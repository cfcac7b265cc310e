"""Envoy's process starts before the parts that it needs, and has what it needs all the same."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import mesh_sds
import mesh_status_server
import xds_proxy
from envoy_supervisor.testing import fake_envoy
from mesh_agent import AgentConfig
from mesh_agent._envoy_start import envoy_started
from mesh_testkit import until
from running_agents import agent_process, listener, own_address, running_agent

Load = Callable[..., AgentConfig]

HERE = {
    "CLOUD_PLATFORM": "none",
    "INSTANCE_IP": own_address(),
    "MESH_AGENT_BIND_ADDRESS": own_address(),
}

LOADS = """
import asyncio, json, os, sys
from pathlib import Path
from mesh_agent import Flags, load_config
from mesh_agent import _process
from mesh_agent._envoy_start import envoy_started

config = load_config(
    Flags(envoy_path="envoy"), environ=os.environ, directory=Path(), version="1"
)

async def main():
    extended = await _process.with_gateway_credentials(config)
    async with envoy_started(extended) as started:
        print(json.dumps([started.envoy.pid, list(sys.modules)]))

asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_no_heavy_library_is_loaded_before_envoys_process(workload: Path) -> None:
    fake_envoy(workload)
    done = subprocess.run(
        [sys.executable, "-c", LOADS],
        cwd=workload,
        env={"PATH": os.environ["PATH"], **HERE},
        check=True,
        capture_output=True,
        text=True,
    )
    pid, loaded = json.loads(done.stdout)
    assert {"grpc", "cryptography", "xds_server", "mesh_agent._agent"}.isdisjoint(loaded)
    assert not is_running(pid)


async def test_its_connections_wait_in_the_kernel(load: Load, workload: Path) -> None:
    config = load(HERE, envoy_path=str(fake_envoy(workload / "e").binary))
    async with envoy_started(config) as started:
        for path, listening in (
            (config.relay.socket_path, started.configuration),
            (config.secrets.socket_path, started.secrets),
        ):
            assert listening is not None
            assert path.stat().st_mode & 0o777 == 0o600
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(60)
                client.connect(str(path))
                client.sendall(b"waits")
                accepted, _ = await asyncio.to_thread(_accept, listening)
                with accepted:
                    assert accepted.recv(5) == b"waits"
    assert not config.relay.socket_path.exists()
    assert not config.secrets.socket_path.exists()


def _accept(listening: socket.socket) -> tuple[socket.socket, object]:
    listening.setblocking(True)
    return listening.accept()


async def test_it_is_not_started_where_another_agent_has_its_socket(
    load: Load, workload: Path, free_port: Callable[[], int]
) -> None:
    envoy = fake_envoy(workload / "e")
    config = load(HERE, envoy_path=str(envoy.binary))
    status = replace(config.status, port=free_port())
    async with envoy_started(config) as first:
        with pytest.raises(xds_proxy.SocketError, match="in use: another process listens on it"):
            async with envoy_started(replace(config, status=status)):
                pass
        assert is_running(first.envoy.pid)
        await until(envoy.starts, what="the first Envoy's start")
        assert len(envoy.starts()) == 1


@pytest.mark.parametrize("name", ["socket", "other"])
async def test_a_socket_of_another_process_for_secrets_is_left_alone(
    load: Load, workload: Path, name: str
) -> None:
    config = load(
        {**HERE, "WORKLOAD_IDENTITY_SOCKET_FILE": name},
        envoy_path=str(fake_envoy(workload / "e").binary),
    )
    path = config.secrets.socket_path
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        if name == "socket":
            other.bind(str(path))
            other.listen()
        async with envoy_started(config) as started:
            assert started.secrets is None
        assert path.exists() == (name == "socket")
    path.unlink(missing_ok=True)


async def test_it_stops_once(load: Load, workload: Path) -> None:
    config = load(HERE, envoy_path=str(fake_envoy(workload / "e").binary))
    async with envoy_started(config) as started:
        pid = started.envoy.pid
        await started.stop()
        assert not is_running(pid)
        await started.stop()


async def test_it_is_not_started_where_the_status_port_is_taken(load: Load, workload: Path) -> None:
    envoy = fake_envoy(workload / "e")
    config = load(HERE, envoy_path=str(envoy.binary))
    # With SO_REUSEADDR: connections to an agent of an earlier test may be in TIME_WAIT.
    with socket.create_server((config.status.host, config.status.port)):
        with pytest.raises(mesh_status_server.ListenError, match=str(config.status.port)):
            async with envoy_started(config):
                pass
    assert not envoy.starts()


async def test_it_ends_when_a_part_cannot_start(socket_dir: Path, envoy_binary: Path) -> None:
    in_the_way = socket_dir / "var/run/secrets/workload-spiffe-uds/socket"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("")
    async with running_agent(socket_dir, envoy_binary, expect=mesh_sds.SocketUnusable) as agent:
        await until(agent.task.done, what="the agent's end")
    assert "is in the way" in str(agent.task.exception())
    assert not list(socket_dir.rglob("envoy-rev*"))
    assert not agent.config.relay.socket_path.exists()


async def test_a_stop_while_the_parts_load_is_heeded(socket_dir: Path, envoy_binary: Path) -> None:
    """The signal comes when there is an Envoy, and no part yet."""
    async with agent_process(socket_dir, envoy_binary) as agent:
        await until(lambda: "envoy started" in agent.said(), what="Envoy's start")
        agent.process.terminate()
        assert await agent.wait() == 0
        assert agent.left_behind() == []


async def test_an_envoy_that_connected_first_gets_all(socket_dir: Path, envoy_binary: Path) -> None:
    """As always, but said here: the sockets are those that Envoy's process found."""
    async with running_agent(socket_dir, envoy_binary) as agent:
        await agent.plane.give_all(listener("web"))
        await agent.until_ready_says(200, "")
        assert agent.config.relay.socket_path.is_socket()
        assert agent.config.secrets.socket_path.is_socket()
