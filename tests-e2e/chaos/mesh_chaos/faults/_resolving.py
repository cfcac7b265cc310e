"""One of the two resolvers outside the mesh dies, or lies."""

import asyncio

from mesh_chaos._resolvers import Mood
from mesh_chaos._schedule import Fault
from mesh_chaos._world import World


async def resolver_dead(world: World, fault: Fault) -> None:
    await _moody(world, fault, Mood.DEAD)


async def resolver_lying(world: World, fault: Fault) -> None:
    await _moody(world, fault, Mood.LYING)


async def _moody(world: World, fault: Fault, mood: Mood) -> None:
    resolver = world.resolvers[fault.target]
    resolver.mood = mood
    try:
        await asyncio.sleep(fault.lasts_s)
    finally:
        resolver.mood = Mood.WELL
