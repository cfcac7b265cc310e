"""Agents stopped at any moment of their start end soon, and leave nothing behind."""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_e2e._agents import own_address
from mesh_e2e._starts import Stop, stopped_at_random
from mesh_e2e._troubles import plane, workload

Record = Callable[[str, object], None]

STARTS = int(os.environ.get("MESH_E2E_STARTS", "12"))
LATEST_S = 4.0
AT_ONCE = 3


@pytest.mark.slow
async def test_an_agent_stopped_at_a_random_moment_leaves_nothing(
    tmp_path: Path, record: Record
) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    record("seed", seed)
    with plane(tmp_path / "plane", own_address(90)) as there:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> Stop:
            started = workload(there, tmp_path / str(number), own_address(100 + number % 50))
            async with at_once:
                return await stopped_at_random(
                    started.directory,
                    {**started.environment, "CLOUD_PLATFORM": "none"},
                    rng,
                    latest_s=LATEST_S,
                    once_it_speaks=number % 4 > 0,
                )

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(STARTS)]
        stops = [task.result() for task in tasks]
    record("stops", len(stops))
    record("exit statuses", json.dumps(Counter(each.status for each in stops)))
    record("of them after all parts had started", sum(each.started for each in stops))
    record("longest stop", f"{max(each.took_s for each in stops):.2f} s")
