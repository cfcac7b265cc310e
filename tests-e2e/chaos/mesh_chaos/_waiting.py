"""Waiting for what a fault leads to, for as long as a busy machine may take."""

import asyncio
import inspect
from collections.abc import Callable

PATIENCE_S = 60.0
_LOOK_S = 0.02


class NotSoon(Exception):
    """It did not come; the text is a sentence for the report."""


async def soon(
    condition: Callable[[], object],
    *,
    what: str,
    seen: Callable[[], object] | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait until it holds; raises `NotSoon`. condition: may be a coroutine function."""
    try:
        async with asyncio.timeout(patience_s):
            while True:
                held = condition()
                if await held if inspect.isawaitable(held) else held:
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        suffix = "" if seen is None else f"; there was {seen()}"
        raise NotSoon(f"waited {patience_s:.0f} s in vain for {what}{suffix}") from None
