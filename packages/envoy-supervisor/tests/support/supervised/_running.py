"""A supervised Envoy's life as seen from outside: serving, killed, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from envoy_supervisor import Envoy, EnvoyConfig, EnvoyState, running
from mesh_lifecycle import Clock
from mesh_testkit import PATIENCE_S, until


@asynccontextmanager
async def serving(config: EnvoyConfig, *, clock: Clock | None = None) -> AsyncIterator[Envoy]:
    """Run Envoy beside the block, which begins when it is ready."""
    async with running(config, clock=clock) as envoy:
        await envoy.wait_ready(PATIENCE_S)
        yield envoy


async def holds(envoy: Envoy, count: int) -> None:
    await until(
        lambda: envoy.status.retained_sockets == count,
        what=f"{count} sockets to be held",
        seen=lambda: envoy.status,
    )


async def crashed(envoy: Envoy, count: int) -> None:
    await until(
        lambda: envoy.status.crashes == count,
        what=f"{count} crashes to be noticed",
        seen=lambda: envoy.status,
    )


async def until_state(envoy: Envoy, state: EnvoyState) -> None:
    await until(lambda: envoy.state is state, what=f"envoy to be {state}", seen=lambda: envoy.state)


async def killed(envoy: Envoy) -> None:
    """Kill the Envoy that serves, and wait until the next one does."""
    count = envoy.status.crashes
    os.kill(envoy.pid, signal.SIGKILL)
    await crashed(envoy, count + 1)
    await envoy.wait_ready(PATIENCE_S)


async def gone(pid: int) -> None:
    process = Path(f"/proc/{pid}")
    await until(lambda: not process.exists(), what=f"the end of process {pid}")


async def until_said(words: str, caplog: pytest.LogCaptureFixture, **facts: object) -> None:
    """Wait until a log record has this message and these facts."""

    def said() -> bool:
        return any(
            record.getMessage() == words and facts.items() <= record.__dict__.items()
            for record in caplog.records
        )

    await until(said, what=f"{words!r} {facts or ''}", seen=lambda: caplog.messages)


@asynccontextmanager
async def stop_aside(stack: AsyncExitStack) -> AsyncIterator[asyncio.Task[None]]:
    """Close the stack that runs Envoy while the block runs, which may wait for the end of it."""
    stop = asyncio.create_task(stack.aclose(), name="stop")
    try:
        yield stop
    except BaseException:
        stop.cancel()
        raise
    finally:
        await asyncio.wait({stop})
