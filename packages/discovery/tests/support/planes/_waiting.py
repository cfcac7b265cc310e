"""Waiting for a condition, with what was seen last in the failure."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

DEADLINE_S = 60.0  # for what takes a second; a slow machine under load gets all of it


async def eventually(
    check: Callable[[], Awaitable[Any]], *, what: str, wanted: object = None
) -> Any:
    """Ask until the answer is the wanted one, or any truthy one.

    The last answer or error is shown when it never is.
    """
    last: object = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    last = await check()
                except (OSError, aiohttp.ClientError) as error:
                    last = error
                else:
                    if last if wanted is None else last == wanted:
                        return last
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"{what} did not happen; last seen: {last!r}")
