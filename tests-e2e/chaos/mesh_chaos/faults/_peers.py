"""Peers that take more than their share: streams that are not read, silent connections."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from mesh_ca import TokenIssuer
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh

_PROCESS = Path(__file__).parents[1] / "_peers_process.py"
_STREAMS = 60
_ISSUER, _AUDIENCE = "mesh-local", "istio-ca"
_IDLE_A_PORT = 100
_IDLE_FROM = "127.66.6.6"


async def unread_streams(tested: TestedMesh, fault: Fault) -> None:
    """One identity of the mesh asks for everything on many streams, and reads none of it."""
    token = tested.directory / "hog-token"
    issuer = TokenIssuer(tested.mesh.state.tokens, _ISSUER)
    token.write_text(issuer.issue("default", "hog", _AUDIENCE, timedelta(hours=1)))
    unread = {
        "address": [tested.mesh.plan.block.control_plane, 15012],
        "count": _STREAMS,
        "token": str(token),
        "prefix": f"hog-{fault.number}",
    }
    async with _peers({"unread": unread}):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready("control plane")


async def idle_connections(tested: TestedMesh, fault: Fault) -> None:
    """Another address opens connections to every port of the mesh, and says nothing on them."""
    plan = tested.mesh.plan
    own = [each.instance.addresses.inbound for each in tested.mesh.workloads]
    plane = [(plan.block.control_plane, port) for port in (plan.http_port, 15012, 15014)]
    agents = [(host, port) for host in own for port in (15020, 15021, 15090)]
    idle = {"addresses": [*plane, *agents], "count": _IDLE_A_PORT, "source": _IDLE_FROM}
    async with _peers({"idle": idle}):
        await asyncio.sleep(fault.lasts_s)
    for name in tested.parts:
        await tested.until_ready(name)


@asynccontextmanager
async def _peers(what: dict[str, Any]) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(_PROCESS), json.dumps(what)), stdin=asyncio.subprocess.PIPE
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()
