"""A service beside a block: which of the two ends, and with what."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from xds_server._background import in_background


class Trouble(Exception):
    pass


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def fails() -> None:
    raise Trouble


async def ends() -> None:
    pass


async def test_the_service_ends_with_the_block() -> None:
    service = asyncio.Event()

    async def serve() -> None:
        try:
            await for_ever()
        finally:
            service.set()

    async with in_background(serve(), name="service"):
        await asyncio.sleep(0)
    assert service.is_set()


async def test_an_error_of_the_service_ends_the_block_and_comes_out_of_it() -> None:
    with pytest.raises(Trouble):
        async with in_background(fails(), name="service"):
            await for_ever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_service_that_returns_has_failed_and_is_named() -> None:
    with pytest.raises(RuntimeError, match="service ended"):
        async with in_background(ends(), name="service"):
            await for_ever()


async def test_an_error_of_the_block_goes_before_that_of_the_service() -> None:
    async def block() -> None:
        async with in_background(fails(), name="service"):
            try:
                await for_ever()
            finally:
                raise KeyError

    with pytest.raises(KeyError):
        await block()


@pytest.mark.parametrize("service", [for_ever, fails])
async def test_a_cancel_from_outside_goes_on(service: type) -> None:
    inside = asyncio.Event()

    async def block() -> None:
        async with in_background(service(), name="service"):
            inside.set()
            await for_ever()

    task = asyncio.create_task(block(), name="block")
    await inside.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_neither_error_nor_block_is_left_to_the_garbage_collector() -> None:
    class Held:
        pass

    async def block(held: Held) -> weakref.ref[Held]:
        try:
            async with in_background(fails(), name=f"service of {held}"):
                await for_ever()
        except Trouble:
            return weakref.ref(held)
        raise AssertionError

    gc.collect()
    gc.disable()
    try:
        held = await block(Held())
        assert held() is None
    finally:
        gc.enable()
