"""Two minutes of chaos: every kind of fault once, under traffic, and the books balance."""

import asyncio
import json
import os
import random
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SECONDS = 120
SEED_IN_CI = 11


async def test_the_books_balance_after_two_minutes_of_chaos(tmp_path: Path) -> None:
    seed = SEED_IN_CI if os.environ.get("CI") else random.randrange(1 << 31)
    report = tmp_path / "report.json"
    code, output, errors = await run_program(
        *("--seconds", str(SECONDS), "--seed", str(seed), "-o", str(report))
    )
    assert code == 0, f"seed {seed}:\n{output}\n{errors}"
    document = json.loads(report.read_text())
    assert document["balanced"]
    assert all(lane["answered"] for lane in document["requests"])


async def run_program(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).parent), *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return process.returncode or 0, output.decode(), errors.decode()


async def test_a_fault_that_there_is_not_is_refused() -> None:
    code, _, errors = await run_program("--only", "earthquake")
    assert code == 2
    assert "earthquake" in errors
