"""One of the two resolvers outside the mesh dies, or lies."""

import asyncio

from mesh_chaos._resolvers import Mood
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh


async def resolver_dead(tested: TestedMesh, fault: Fault) -> None:
    await _moody(tested, fault, Mood.DEAD)


async def resolver_lying(tested: TestedMesh, fault: Fault) -> None:
    await _moody(tested, fault, Mood.LYING)


async def _moody(tested: TestedMesh, fault: Fault, mood: Mood) -> None:
    resolver = tested.resolvers[fault.target]
    resolver.mood = mood
    try:
        await asyncio.sleep(fault.lasts_s)
    finally:
        resolver.mood = Mood.WELL
