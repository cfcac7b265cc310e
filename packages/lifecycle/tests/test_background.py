import asyncio
import gc
import weakref

import pytest

from mesh_lifecycle import ServiceEnded, in_background


class Broken(Exception):
    pass


async def forever(stopped: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        stopped.append("service")


async def test_service_is_stopped_when_the_block_ends() -> None:
    stopped: list[str] = []
    async with in_background(forever(stopped), name="service") as task:
        await asyncio.sleep(0)
    assert stopped == ["service"]
    assert task.cancelled()


async def test_service_stops_after_the_block_and_before_what_encloses_it() -> None:
    order: list[str] = []
    async with in_background(forever(order), name="service"):
        await asyncio.sleep(0)
        order.append("block")
    order.append("outside")
    assert order == ["block", "service", "outside"]


async def test_error_of_the_service_interrupts_the_block() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise Broken("why")

    with pytest.raises(Broken, match="why"):
        async with in_background(fail(), name="service"):
            await asyncio.Event().wait()
    assert _cancel_requests() == 0


async def test_service_that_returns_interrupts_the_block_and_is_named() -> None:
    async def return_early() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ServiceEnded, match="service ended"):
        async with in_background(return_early(), name="service"):
            await asyncio.Event().wait()


async def test_service_that_ended_is_noticed_by_a_block_that_never_waits_again() -> None:
    async def fail() -> None:
        raise Broken("why")

    with pytest.raises(Broken):
        async with in_background(fail(), name="service"):
            await asyncio.sleep(0)
    assert _cancel_requests() == 0
    await asyncio.sleep(0)  # nothing of the interruption is left for later


async def test_error_of_the_block_passes_and_stops_the_service() -> None:
    stopped: list[str] = []
    with pytest.raises(Broken):
        async with in_background(forever(stopped), name="service"):
            await asyncio.sleep(0)
            raise Broken
    assert stopped == ["service"]


async def test_cancellation_from_outside_passes_and_stops_the_service() -> None:
    stopped: list[str] = []
    started = asyncio.Event()

    async def block() -> None:
        async with in_background(forever(stopped), name="service"):
            await asyncio.sleep(0)
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert stopped == ["service"]


async def test_cancellation_from_outside_wins_over_a_service_that_ends_with_it() -> None:
    service_may_end = asyncio.Event()
    started = asyncio.Event()

    async def block() -> None:
        async with in_background(service_may_end.wait(), name="service"):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await started.wait()
    service_may_end.set()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("waits", [True, False])
async def test_error_of_the_block_goes_before_that_of_the_service(*, waits: bool) -> None:
    async def fail() -> None:
        raise Broken

    async def block() -> None:
        async with in_background(fail(), name="service"):
            try:
                await (asyncio.Event().wait() if waits else asyncio.sleep(0))
            finally:
                raise KeyError

    with pytest.raises(KeyError):
        await block()
    assert _cancel_requests() == 0
    await asyncio.sleep(0)  # nothing of the interruption is left for later


async def test_service_that_fails_in_the_turn_in_which_the_block_ends_is_reported() -> None:
    ending = asyncio.Event()

    async def fail() -> None:
        ending.set()
        raise Broken

    with pytest.raises(Broken):
        async with in_background(fail(), name="service"):
            await ending.wait()
    assert _cancel_requests() == 0


async def test_neither_error_nor_block_is_left_to_the_garbage_collector() -> None:
    class Held:
        pass

    async def fail() -> None:
        raise Broken

    async def block(held: Held) -> weakref.ref[Held]:
        try:
            async with in_background(fail(), name=f"service of {held}"):
                await asyncio.Event().wait()
        except Broken:
            return weakref.ref(held)
        raise AssertionError

    gc.collect()
    gc.disable()
    try:
        held = await block(Held())
        assert held() is None
    finally:
        gc.enable()


async def test_it_is_entered_once() -> None:
    service = in_background(forever([]), name="service")
    async with service:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        async with service:
            pass


async def test_nested_services_stop_in_reverse_order() -> None:
    order: list[str] = []

    async def service(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append(name)

    async with in_background(service("first"), name="first"):
        async with in_background(service("second"), name="second"):
            await asyncio.sleep(0)
    assert order == ["second", "first"]


def _cancel_requests() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()
