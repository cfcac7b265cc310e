"""Faults begin and end once, in whichever form they are used."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mesh_local import Fault, FaultError
from mesh_local.testing.faults._fault import Faults


def fault(events: list[str], faults: Faults, *, fails: bool = False) -> Fault:
    @asynccontextmanager
    async def make() -> AsyncIterator[None]:
        if fails:
            raise FaultError("it can't be")
        events.append("begun")
        yield
        events.append("ended")

    return Fault("cut", make, faults=faults)


async def test_a_fault_is_there_in_its_block() -> None:
    events, faults = list[str](), Faults()
    async with fault(events, faults) as begun:
        assert (events, faults.active) == (["begun"], (begun,))
    assert (events, faults.active) == (["begun", "ended"], ())


async def test_a_fault_that_is_awaited_stays_until_its_end() -> None:
    events, faults = list[str](), Faults()
    begun = await fault(events, faults)
    assert await begun is begun
    async with begun:
        assert events == ["begun"]
    await begun.end()
    assert events == ["begun", "ended"]


async def test_a_fault_that_can_t_be_is_not_there() -> None:
    faults = Faults()
    with pytest.raises(FaultError, match="it can't be"):
        await fault([], faults, fails=True)
    assert not faults.active
