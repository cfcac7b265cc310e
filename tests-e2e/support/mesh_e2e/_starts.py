"""Agents that are told to stop at a random moment of their start, and what they leave behind."""

import asyncio
import random
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mesh_e2e._machine import alive, children_of, last_words
from mesh_testkit import until

LONGEST_STOP_S = 30.0
# Before the agent handles signals, SIGTERM has its usual effect: then it has made nothing yet.
STATUSES = {0, -signal.SIGTERM, 128 + signal.SIGTERM}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One stop.

    after_s: since the start or first line. took_s: until the process had ended.
    started: all parts had started, Envoy too.
    """

    after_s: float
    took_s: float
    status: int
    started: bool


async def stopped_at_random(
    directory: Path,
    environment: Mapping[str, str],
    rng: random.Random,
    *,
    latest_s: float,
    once_it_speaks: bool,
) -> Stop:
    """Start an agent in the directory, stop it after a random time, and look at what is left.

    once_it_speaks: the time is counted from its first line in the log, when its parts start.
    """
    log = directory / "agent.log"
    loop = asyncio.get_running_loop()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mesh_agent", "proxy", "sidecar"),
            env=dict(environment),
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        if once_it_speaks:
            await until(lambda: log.stat().st_size > 0, what="the agent's first line")
        after_s = rng.uniform(0, latest_s)
        await asyncio.sleep(after_s)
        children = children_of(process.pid)
        stopped_at = loop.time()
        process.terminate()
        async with asyncio.timeout(LONGEST_STOP_S):
            status = await process.wait()
        took_s = loop.time() - stopped_at
        assert status in STATUSES, f"exit status {status} after {after_s:.3f} s"
        await _until_gone(children)
        left = [
            str(path.relative_to(directory))
            for path in directory.rglob("*")
            if path.is_socket() or "envoy-rev" in path.name
        ]
        assert left == [], f"{left} left by a stop after {after_s:.3f} s"
    except BaseException as error:
        error.add_note(last_words([log]))
        raise
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    started = "agent started" in log.read_text()
    return Stop(after_s=after_s, took_s=took_s, status=status, started=started)


async def _until_gone(pids: tuple[int, ...]) -> None:
    """A process that the kernel ends with its parent is gone a moment after it."""
    for _ in range(100):
        if not any(map(alive, pids)):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{pids} outlive their agent")
