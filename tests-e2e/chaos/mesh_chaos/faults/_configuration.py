"""Edits: good ones, a wrong one, two at once, a file that is gone and comes back."""

import asyncio

from mesh_chaos._schedule import Fault
from mesh_chaos._waiting import soon
from mesh_chaos._world import World, put

_WRONG = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wrong, namespace: default}
spec: {hosts: [wrong.example], ports: [{number: 80, name: http, protocl: HTTP}]}
"""
_NOT_YAML = "kind: [ServiceEntry\n"


async def good_edit(world: World, fault: Fault) -> None:
    world.edit(fault.number)
    await world.until_in_use()


async def two_edits(world: World, fault: Fault) -> None:
    """The second within a millisecond of the first: it is the one that counts."""
    world.edit(fault.number + 1_000_000)
    world.edit(fault.number)
    await world.until_in_use()


async def wrong_edit(world: World, fault: Fault) -> None:
    """A file that is wrong is told, and takes nothing away; so is a good one made wrong."""
    file = world.rules / "wrong.yaml"
    put(file, _NOT_YAML if fault.draw % 2 else _WRONG)
    try:
        await soon(lambda: _is_told(world, file.name), what="the wrong file to be told")
        await asyncio.sleep(fault.lasts_s)
    finally:
        file.unlink()
    await soon(lambda: not _is_told(world, file.name), what="the wrong file to be forgotten")


async def deleted_file(world: World, fault: Fault) -> None:
    """The rule is gone meanwhile; requests go on by the service's own."""
    file = world.rules / "edition.yaml"
    edge_goes_on = file.read_text()
    aside = edge_goes_on.replace("gateways: [mesh, edge]", "gateways: [edge]")
    put(world.rules / "edge-goes-on.yaml", aside.replace("name: backend,", "name: aside,"))
    try:
        file.unlink()
        await asyncio.sleep(fault.lasts_s)
    finally:
        world.edit(fault.number)
        (world.rules / "edge-goes-on.yaml").unlink()
    await world.until_in_use()


def _is_told(world: World, name: str) -> bool:
    return any(name in each for each in world.mesh.findings)
