"""Waiting for a condition without an event; the time limit only guards against hanging."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

PATIENCE_S = 180.0
"""Not a claim about speed: on a machine with thirty times too much to do, Python alone needs a
minute to start."""
_LOOK_S = 0.005


async def until(
    condition: Callable[[], object], *, what: str, seen: Callable[[], object] | None = None
) -> None:
    """Wait until it holds.

    condition: may be a coroutine function.
    Raises AssertionError with what was awaited, and what there was instead.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                held = condition()
                if await held if inspect.isawaitable(held) else held:
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        suffix = "" if seen is None else f"; there was {seen()}"
        raise AssertionError(f"waited {PATIENCE_S:g} s in vain for {what}{suffix}") from None
