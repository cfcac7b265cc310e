"""Edits: good ones, a wrong one, two at once, a file that is gone and comes back."""

import asyncio

from mesh_chaos._configuration import put
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh
from mesh_chaos._waiting import soon

_WRONG = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wrong, namespace: default}
spec: {hosts: [wrong.example], ports: [{number: 80, name: http, protocl: HTTP}]}
"""
_NOT_YAML = "kind: [ServiceEntry\n"


async def good_edit(tested: TestedMesh, fault: Fault) -> None:
    tested.edit(fault.number)
    await tested.until_in_use()


async def two_edits(tested: TestedMesh, fault: Fault) -> None:
    """The second within a millisecond of the first: it is the one that counts."""
    tested.edit(fault.number + 1_000_000)
    tested.edit(fault.number)
    await tested.until_in_use()


async def wrong_edit(tested: TestedMesh, fault: Fault) -> None:
    """A file that is wrong is told, and takes nothing away; so is a good one made wrong."""
    file = tested.rules / "wrong.yaml"
    put(file, _NOT_YAML if fault.draw % 2 else _WRONG)
    try:
        await soon(lambda: _is_reported(tested, file.name), what="the wrong file to be told")
        await asyncio.sleep(fault.lasts_s)
    finally:
        file.unlink()
    await soon(lambda: not _is_reported(tested, file.name), what="the wrong file to be forgotten")


async def deleted_file(tested: TestedMesh, fault: Fault) -> None:
    """The rule is gone meanwhile; requests go on by the service's own."""
    file = tested.rules / "edition.yaml"
    edge_goes_on = file.read_text()
    aside = edge_goes_on.replace("gateways: [mesh, edge]", "gateways: [edge]")
    put(tested.rules / "edge-goes-on.yaml", aside.replace("name: backend,", "name: aside,"))
    try:
        file.unlink()
        await asyncio.sleep(fault.lasts_s)
    finally:
        tested.edit(fault.number)
        (tested.rules / "edge-goes-on.yaml").unlink()
    await tested.until_in_use()


def _is_reported(tested: TestedMesh, name: str) -> bool:
    return any(name in each for each in tested.mesh.findings)
