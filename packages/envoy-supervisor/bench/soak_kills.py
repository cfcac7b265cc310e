"""Envoy killed, replaced, stopped and notified of changes at random, under constant load.

What must hold: no Envoy ends but by our hand (it aborts when the hot restart protocol is broken),
nothing is lost once it is calm, nothing is left behind; and with `--only kill,restart`, no
connection is refused at all unless kills follow each other for longer than connections wait. Run:

    python packages/envoy-supervisor/bench/soak_kills.py [--seconds 60] [--seed 1] [--only kill]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench_restart import Load, application, bootstrap

from envoy_supervisor import (
    CrashPolicy,
    Envoy,
    EnvoyConfig,
    EnvoySupervisorError,
    find_envoy,
    running,
)
from mesh_lifecycle import Backoff
from mesh_testkit import find_free_port

ACTS = ("kill", "restart", "freeze", "change")


class Ends(logging.Handler):
    """Counts how Envoys ended that were not asked to."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.reasons: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "envoy failed":
            self.reasons[str(getattr(record, "reason", ""))[:60]] += 1


class Chaos:
    """Does things to one Envoy at random."""

    def __init__(self, envoy: Envoy, file: Path, content: dict[str, Any], seed: int) -> None:
        self.envoy = envoy
        self.did: Counter[str] = Counter()
        self.refusals = 0
        self._file = file
        self._content = content
        self._random = random.Random(seed)
        self._restart: asyncio.Task[None] | None = None

    async def run(self, seconds: float, acts: tuple[str, ...]) -> None:
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < deadline:
                act = self._random.choice(acts)
                self.did[act] += 1
                if act == "kill":
                    self._signal(self.envoy.pid, signal.SIGKILL)
                elif act == "freeze":
                    group.create_task(self._freeze())
                elif act == "change":
                    await self._change()
                elif self._restart is None or self._restart.done():
                    self._restart = group.create_task(self._replace())
                pause_s = self._random.choice([0.01, 0.1, 0.8])
                await asyncio.sleep(self._random.random() * pause_s)

    async def _change(self) -> None:
        for _ in range(self._random.choice([1, 20])):
            self.envoy.listeners_changing()
            await asyncio.sleep(self._random.random() * 0.01)
            self.envoy.listeners_changed()

    async def _freeze(self) -> None:
        """It does not answer for a while, perhaps in the middle of our questions."""
        pid = self.envoy.pid
        await self._change()
        self._signal(pid, signal.SIGSTOP)
        await asyncio.sleep(self._random.random() * 1.5)
        self._signal(pid, signal.SIGCONT)

    async def _replace(self) -> None:
        note = str(self.did["restart"])
        self._content["node"]["id"] = note
        self._file.write_text(json.dumps(self._content))
        try:
            await self.envoy.restart()
        except EnvoySupervisorError:
            self.refusals += 1

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


async def main(options: argparse.Namespace) -> None:
    ends = Ends()
    logging.getLogger("envoy_supervisor").addHandler(ends)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        server = await application(1.0)
        listen, file = find_free_port(), directory / "bootstrap.json"
        target = server.sockets[0].getsockname()[1]
        content = bootstrap(listen, target, directory / "admin", "0")
        file.write_text(json.dumps(content))
        config = EnvoyConfig(
            binary=options.envoy,
            bootstrap=file,
            directory=directory / "run",
            concurrency=2,
            parent_shutdown_time=timedelta(seconds=1),
            crashes=CrashPolicy(budget=1_000_000, backoff=Backoff(initial_s=0.02, maximum_s=0.02)),
        )
        async with server:
            async with running(config) as envoy:
                await envoy.wait_ready(10)
                load, chaos = Load(listen), Chaos(envoy, file, content, options.seed)
                async with load.running():
                    await chaos.run(options.seconds, tuple(options.only.split(",")))
                    await envoy.wait_ready(10)
                load.report("chaos", options.seconds)
                status = envoy.status
                print(f"did {dict(chaos.did)}, restarts refused {chaos.refusals}")
                print(
                    f"crashes {status.crashes}, hot restarts {status.restarts}, "
                    f"sockets handed over {status.handed_over}"
                )
                calm = Load(listen)
                async with calm.running():
                    await asyncio.sleep(2)
                calm.report("calm", 2.0)
            print(f"ends {dict(ends.reasons)}, left {[*(directory / 'run').iterdir()]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envoy", type=Path, default=find_envoy())
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(ACTS), help=f"some of {','.join(ACTS)}")
    asyncio.run(main(parser.parse_args()))
