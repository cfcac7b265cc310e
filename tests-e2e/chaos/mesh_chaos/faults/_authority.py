"""The certificate authority away or slow, while the control plane is well; and a new root."""

import asyncio

from mesh_chaos._authority import Way
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh
from mesh_e2e import run_command

_SPREAD_S, _RETIREMENT_S = 30, 75
"""Certificates live for a minute, and are renewed every few seconds."""


async def authority_away(tested: TestedMesh, fault: Fault) -> None:
    await _with(tested, fault, Way.CLOSED)


async def authority_slow(tested: TestedMesh, fault: Fault) -> None:
    await _with(tested, fault, Way.SLOW)


async def _with(tested: TestedMesh, fault: Fault, way: Way) -> None:
    tested.authority.way = way
    if way is Way.CLOSED:
        tested.authority.close_all()
    try:
        await asyncio.sleep(fault.lasts_s)
    finally:
        tested.authority.way = Way.OPEN


async def new_root(tested: TestedMesh, fault: Fault) -> None:
    """The authority gets another root; one that is being replaced already stays."""
    code, output, errors = await run_command(
        *("mesh_discovery", "replace-root", f"--ca-dir={tested.mesh.state.ca}"),
        *(f"--spread={_SPREAD_S}s", f"--retirement={_RETIREMENT_S}s"),
        environment=tested.environment,
        directory=tested.directory,
    )
    if code == 0:
        tested.notes.append(f"{fault}: a new root")
    elif "is being replaced already" not in errors:
        tested.problem(f"{fault}: replace-root ended with {code}: {(output + errors).strip()}")
