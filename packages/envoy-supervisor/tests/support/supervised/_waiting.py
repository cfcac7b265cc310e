"""Waiting for what gives no event, with a bound that only guards against hanging."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Callable

PATIENCE_S = 60.0


async def until(
    condition: Callable[[], object], *, what: str, seen: Callable[[], object] = lambda: "nothing"
) -> None:
    """Wait until it holds; fails with what was awaited, and what there was instead.

    condition: may be a coroutine function.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                held = condition()
                if await held if inspect.isawaitable(held) else held:
                    return
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(
            f"waited {PATIENCE_S:g} s in vain for {what}; there was {seen()}"
        ) from None


def is_refused(port: int) -> bool:
    """Say whether nobody listens there."""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S):
            return False
    except ConnectionRefusedError:
        return True


async def until_refused(port: int) -> None:
    """Wait until nobody listens there any more."""
    await until(lambda: is_refused(port), what=f"port {port} to refuse connections")
