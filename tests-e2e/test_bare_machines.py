"""Machines that lack what others have: an address family, routes, a writable /etc, a home."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from mesh_e2e._agents import ROOT, TOKEN, put
from mesh_testkit import PATIENCE_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare"),
]

UP = "ip link set lo up"
ONLY_IPV6 = f"{UP}; ip addr del 127.0.0.1/8 dev lo"
MACHINES = {
    "IPv6 only": ONLY_IPV6,
    "dual stack": f"{UP}; ip addr add fd00::5/128 dev lo; ip addr add 10.9.8.7/32 dev lo",
    "no route": UP,
    "read-only /etc": f"{UP}; mount --bind /etc /etc; mount -o remount,ro,bind /etc",
}
ADDRESSES = {"IPv6 only": "::1", "dual stack": "10.9.8.7"}


async def starts_and_stops(directory: Path, setup: str, prefix: str = "", **environ: str) -> str:
    """Run an agent in namespaces of its own until it and Envoy have started; returns its log."""
    put(directory, TOKEN, "token")
    put(directory, ROOT, Path("/etc/ssl/certs/ca-certificates.crt").read_bytes())
    log = directory / "agent.log"
    agent = f'{prefix} "{sys.executable}" -m mesh_agent proxy sidecar'
    proxy = '{"discoveryAddress": "127.0.0.1:15012", "concurrency": 1}'
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("unshare", "--net", "--mount", "/bin/sh", "-ec", f"{setup}; exec {agent}"),
            env={
                "PATH": os.environ["PATH"],
                "CLOUD_PLATFORM": "none",
                "PROXY_CONFIG": proxy,
                **environ,
            },
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        await until(
            lambda: "agent started" in log.read_text() or process.returncode is not None,
            what="the agent's start",
            seen=log.read_text,
        )
        assert process.returncode is None, log.read_text()
        process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0, log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    said = log.read_text()
    assert "envoy started" in said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("machine", MACHINES)
async def test_an_agent_starts_and_stops_on_it(socket_dir: Path, machine: str) -> None:
    address = ADDRESSES.get(machine, "127.0.0.1")
    await starts_and_stops(socket_dir, MACHINES[machine], INSTANCE_IP=address)


async def test_an_agent_finds_its_address_where_there_is_only_ipv6(socket_dir: Path) -> None:
    said = await starts_and_stops(socket_dir, f"{ONLY_IPV6}; ip addr add fd00::5/128 dev lo")
    assert "sidecar~fd00::5~" in said or "sidecar~::1~" in said


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")
async def test_an_agent_of_a_user_without_home_and_in_the_plainest_locale(
    socket_dir: Path, envoy_binary: Path
) -> None:
    # This Python may lie in root's home, so reading and entering is left to this user.
    reading = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
    other_user = f"setpriv --reuid=1337 --regid=1337 --clear-groups {reading}"
    tried = await asyncio.create_subprocess_exec(
        *other_user.split(), "true", stderr=asyncio.subprocess.DEVNULL
    )
    if await tried.wait():
        pytest.skip("this machine does not let root leave that right to another user")
    socket_dir.chmod(0o777)
    # A copy: whether a file may be executed is asked without the right above.
    (socket_dir / "bin").mkdir()
    shutil.copy(envoy_binary, socket_dir / "bin/envoy")
    await starts_and_stops(
        socket_dir,
        f"{UP}; chown -R 1337 .",
        other_user,
        INSTANCE_IP="127.0.0.1",
        LANG="C",
        ENVOY_PATH="bin/envoy",
    )
