"""Peers that take more than their share: streams that are not read, silent connections."""

import asyncio
from datetime import timedelta

from mesh_ca import TokenIssuer
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh
from mesh_e2e import idle_connections as silent_peers
from mesh_e2e import stalled_streams

_STREAMS = 60
_ISSUER, _AUDIENCE = "mesh-local", "istio-ca"
_IDLE_A_PORT = 100
_IDLE_FROM = "127.66.6.6"


async def unread_streams(tested: TestedMesh, fault: Fault) -> None:
    """One identity of the mesh asks for everything on many streams, and reads none of it."""
    plane = tested.mesh.plan.block.control_plane
    token = tested.directory / "hog-token"
    issuer = TokenIssuer(tested.mesh.state.tokens, _ISSUER)
    token.write_text(issuer.issue("default", "hog", _AUDIENCE, timedelta(hours=1)))
    prefix = f"hog-{fault.number}"
    async with stalled_streams((plane, 15012), _STREAMS, node_prefix=prefix, token=token):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready("control plane")


async def idle_connections(tested: TestedMesh, fault: Fault) -> None:
    """Another address opens connections to every port of the mesh, and says nothing on them."""
    plan = tested.mesh.plan
    own = [each.instance.addresses.inbound for each in tested.mesh.workloads]
    plane = [(plan.block.control_plane, port) for port in (plan.http_port, 15012, 15014)]
    agents = [(host, port) for host in own for port in (15020, 15021, 15090)]
    async with silent_peers([*plane, *agents], _IDLE_A_PORT, source=_IDLE_FROM):
        await asyncio.sleep(fault.lasts_s)
    for name in tested.parts:
        await tested.until_ready(name)
