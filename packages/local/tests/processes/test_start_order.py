"""Many agents start some at a time."""

import asyncio
from pathlib import Path

from mesh_local.processes._specs import ProcessSpec, Role
from mesh_local.processes._start_order import AgentStart, start_some_at_a_time
from mesh_testkit import until


def starts(number: int) -> list[AgentStart]:
    return [
        AgentStart(
            ProcessSpec(
                name=f"agent {n}",
                role=Role.AGENT,
                arguments=("true",),
                directory=Path(),
                environment={},
                log=Path("log"),
                stop_timeout_s=1,
            ),
            ready=asyncio.Event(),
        )
        for n in range(number)
    ]


def begun(all_starts: list[AgentStart]) -> list[bool]:
    return [each.may_start.is_set() for each in all_starts]


async def test_the_next_starts_when_one_is_ready() -> None:
    agents = starts(5)
    starting = asyncio.create_task(start_some_at_a_time(agents, at_once=2, longest_s=3600))
    await until(lambda: begun(agents) == [True, True, False, False, False], what="starts")
    agents[1].ready.set()
    await until(lambda: begun(agents) == [True, True, True, False, False], what="starts")
    agents[0].ready.set()
    agents[2].ready.set()
    await until(lambda: begun(agents) == [True] * 5, what="starts")
    agents[3].ready.set()
    agents[4].ready.set()
    await starting


async def test_one_that_is_never_ready_keeps_no_other_from_starting() -> None:
    agents = starts(4)
    await start_some_at_a_time(agents, at_once=1, longest_s=0.01)
    assert begun(agents) == [True] * 4
