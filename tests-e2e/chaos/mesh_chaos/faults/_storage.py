"""Disks that are full or read-only, and saved state that is not what the agent has saved."""

import asyncio
import os
import shutil
from pathlib import Path

from mesh_chaos._disks import NoDisk, full, read_only
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh
from mesh_chaos._waiting import soon
from mesh_e2e import run_command

STATE = Path("var/lib/istio/data/mesh-agent")
_ANOTHER_USER = 65534
_SAVED = {f"envoy.config.{kind}" for kind in ("cluster.v3.Cluster", "listener.v3.Listener")}
_NAMES = "istio.networking.nds.v1.NameTable"


async def agent_full_disk(tested: TestedMesh, fault: Fault) -> None:
    """What it would save meanwhile can't be saved; it saves again afterwards."""
    with full(tested.disks[fault.target]):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready(fault.target)


async def agent_read_only_disk(tested: TestedMesh, fault: Fault) -> None:
    agent = tested.agent(fault.target)
    try:
        with read_only(tested.disks[fault.target], agent.pid, *agent.envoys()):
            await asyncio.sleep(fault.lasts_s)
    except NoDisk as error:
        tested.notes.append(f"{fault}: {error}")
    await tested.until_ready(fault.target)


async def saved_state_changed(tested: TestedMesh, fault: Fault) -> None:
    """While the agent is down, a file of its saved state is another user's, or has another byte."""
    await tested.take_away(fault.target)
    files = sorted(each for each in _state(tested, fault.target).rglob("*") if each.is_file())
    if files:
        file = files[fault.draw % len(files)]
        content = bytearray(file.read_bytes())
        if fault.draw & 0x100 and os.geteuid() == 0:
            os.chown(file, _ANOTHER_USER, _ANOTHER_USER)
        elif content:
            content[(fault.draw >> 9) % len(content)] ^= 1
            file.write_bytes(content)
        tested.notes.append(f"{fault}: {file.relative_to(_state(tested, fault.target))}")
    await tested.bring_back(fault.target)


async def saved_state_older(tested: TestedMesh, fault: Fault) -> None:
    """While the agent is down, its saved state is replaced by that of the run's beginning."""
    await tested.take_away(fault.target)
    older = tested.directory / "older" / fault.target
    state = _state(tested, fault.target)
    if older.is_dir():
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(older, state)
        state.chmod(0o700)
    await tested.bring_back(fault.target)


def keep_state(tested: TestedMesh, workload: str) -> None:
    """Keep a copy of what an agent has saved, to be put in place of a newer one."""
    state = _state(tested, workload)
    if state.is_dir():
        shutil.copytree(state, tested.directory / "older" / workload, dirs_exist_ok=True)


async def control_plane_full_disk(tested: TestedMesh, fault: Fault) -> None:
    """No new root can be made, which is said and harms nothing; starting again needs no room."""
    ca = tested.mesh.state.ca
    with full(tested.disks[fault.target]):
        code, _, errors = await run_command(
            *("mesh_discovery", "replace-root", f"--ca-dir={ca}"),
            environment=tested.environment,
            directory=tested.directory,
        )
        if code == 0 or "Traceback" in errors or not errors.strip():
            tested.problem(f"replace-root on a full disk ended with {code}: {errors.strip()!r}")
        if fault.draw % 2:
            await tested.control_plane.kill()
            await tested.control_plane.start()
            await tested.until_ready("control plane")
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready("control plane")


async def control_plane_read_only_disk(tested: TestedMesh, fault: Fault) -> None:
    try:
        with read_only(tested.disks[fault.target], tested.control_plane.pid):
            if fault.draw % 2:
                await tested.control_plane.kill()
                await tested.control_plane.start()
                await tested.until_ready("control plane")
            await asyncio.sleep(fault.lasts_s)
    except NoDisk as error:
        tested.notes.append(f"{fault}: {error}")
    await tested.until_ready("control plane")


async def until_saved(tested: TestedMesh, workload: str) -> None:
    """Wait until an agent has saved all that a start without a control plane needs."""
    state = _state(tested, workload)

    def is_saved() -> bool:
        names = {each.name.rpartition("-")[0] for each in state.rglob("*") if each.is_file()}
        is_gateway = workload == "edge"  # which answers no names
        return names >= (_SAVED if is_gateway else _SAVED | {_NAMES})

    await soon(
        is_saved, what=f"{workload} to save its state", seen=lambda: sorted(state.rglob("*"))
    )


def _state(tested: TestedMesh, workload: str) -> Path:
    return tested.agent(workload).spec.directory / STATE
