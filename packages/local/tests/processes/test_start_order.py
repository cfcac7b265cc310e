"""Many agents start some at a time."""

from mesh_lifecycle import in_background
from mesh_local.processes._start_order import AgentStart, StartOrder
from mesh_testkit import until


def added(order: StartOrder, number: int) -> list[AgentStart]:
    starts = [AgentStart(f"agent {n}") for n in range(number)]
    for each in starts:
        order.add(each)
    return starts


def begun(all_starts: list[AgentStart]) -> list[bool]:
    return [each.may_start.is_set() for each in all_starts]


async def test_the_next_starts_when_one_is_ready() -> None:
    order = StartOrder(at_once=2, longest_s=3600)
    agents = added(order, 5)
    async with in_background(order.run(), name="starts"):
        await until(lambda: begun(agents) == [True, True, False, False, False], what="starts")
        agents[1].ready.set()
        await until(lambda: begun(agents) == [True, True, True, False, False], what="starts")
        agents[0].ready.set()
        agents[2].ready.set()
        await until(lambda: begun(agents) == [True] * 5, what="starts")


async def test_one_that_is_never_ready_keeps_no_other_from_starting() -> None:
    order = StartOrder(at_once=1, longest_s=0.01)
    agents = added(order, 4)
    async with in_background(order.run(), name="starts"):
        await until(lambda: begun(agents) == [True] * 4, what="starts")


async def test_one_that_is_added_later_has_its_turn() -> None:
    order = StartOrder(at_once=1, longest_s=3600)
    (first,) = added(order, 1)
    async with in_background(order.run(), name="starts"):
        await until(first.may_start.is_set, what="the first")
        (later,) = added(order, 1)
        first.ready.set()
        await until(later.may_start.is_set, what="the later one")
