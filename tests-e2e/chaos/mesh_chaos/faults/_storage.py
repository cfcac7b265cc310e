"""Disks that are full or read-only, and saved state that is not what the agent has saved."""

import asyncio
import os
import shutil
from pathlib import Path

from mesh_chaos._disks import NoDisk, full, read_only
from mesh_chaos._schedule import Fault
from mesh_chaos._waiting import soon
from mesh_chaos._world import World
from mesh_e2e import run_command

STATE = Path("var/lib/istio/data/mesh-agent")
_NOBODY = 65534


async def agent_full_disk(world: World, fault: Fault) -> None:
    """What it would save meanwhile can't be saved; it saves again afterwards."""
    with full(_disk(world, fault.target)):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready(fault.target)


async def agent_read_only_disk(world: World, fault: Fault) -> None:
    agent = world.agent(fault.target)
    try:
        with read_only(_disk(world, fault.target), agent.pid, *agent.envoys()):
            await asyncio.sleep(fault.lasts_s)
    except NoDisk as error:
        world.notes.append(f"{fault}: {error}")
    await world.until_ready(fault.target)


async def saved_state_changed(world: World, fault: Fault) -> None:
    """While the agent is down, a file of its saved state is another user's, or has another byte."""
    await world.take_away(fault.target)
    files = sorted(each for each in _state(world, fault.target).rglob("*") if each.is_file())
    if files:
        file = files[fault.draw % len(files)]
        content = bytearray(file.read_bytes())
        if fault.draw & 0x100 and os.geteuid() == 0:
            os.chown(file, _NOBODY, _NOBODY)
        elif content:
            content[(fault.draw >> 9) % len(content)] ^= 1
            file.write_bytes(content)
        world.notes.append(f"{fault}: {file.relative_to(_state(world, fault.target))}")
    await world.bring_back(fault.target)


async def saved_state_older(world: World, fault: Fault) -> None:
    """While the agent is down, its saved state is replaced by that of the run's beginning."""
    await world.take_away(fault.target)
    older = world.directory / "older" / fault.target
    state = _state(world, fault.target)
    if older.is_dir():
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(older, state)
        state.chmod(0o700)
    await world.bring_back(fault.target)


def keep_state(world: World, workload: str) -> None:
    """Keep a copy of what an agent has saved, to be put in place of a newer one."""
    state = _state(world, workload)
    if state.is_dir():
        shutil.copytree(state, world.directory / "older" / workload, dirs_exist_ok=True)


async def control_plane_full_disk(world: World, fault: Fault) -> None:
    """No new root can be made, which is said and harms nothing; starting again needs no room."""
    ca = world.mesh.state.ca
    with full(ca):
        code, _, errors = await run_command(
            *("mesh_discovery", "replace-root", f"--ca-dir={ca}"),
            environment=world.environment,
            directory=world.directory,
        )
        if code == 0 or "Traceback" in errors or not errors.strip():
            world.problem(f"replace-root on a full disk ended with {code}: {errors.strip()!r}")
        if fault.draw % 2:
            await world.control_plane.kill()
            await world.control_plane.start()
            await world.until_ready("control plane")
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready("control plane")


async def control_plane_read_only_disk(world: World, fault: Fault) -> None:
    try:
        with read_only(world.mesh.state.ca, world.control_plane.pid):
            if fault.draw % 2:
                await world.control_plane.kill()
                await world.control_plane.start()
                await world.until_ready("control plane")
            await asyncio.sleep(fault.lasts_s)
    except NoDisk as error:
        world.notes.append(f"{fault}: {error}")
    await world.until_ready("control plane")


async def until_saved(world: World, workload: str) -> None:
    """Wait until an agent has saved all that a start without a control plane needs."""
    state = _state(world, workload)

    def is_saved() -> bool:
        names = {each.name.partition("-")[0] for each in state.rglob("*") if each.is_file()}
        return len(names) >= 3

    await soon(
        is_saved, what=f"{workload} to save its state", seen=lambda: sorted(state.rglob("*"))
    )


def _state(world: World, workload: str) -> Path:
    return world.agent(workload).spec.directory / STATE


def _disk(world: World, workload: str) -> Path:
    return world.agent(workload).spec.directory
