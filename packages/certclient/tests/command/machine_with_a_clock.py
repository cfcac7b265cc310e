"""`certclient` with a clock that a file sets: `machine_with_a_clock.py FILE ARGUMENTS`.

FILE holds by how many seconds. Only the wall clock: what passes goes on passing, as on a machine.
"""

import asyncio
import sys
import time
from pathlib import Path

from certclient.command._command import main


class WallClock:
    """A clock that is off by what a file says, looked up each time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> float:
        return time.time() + float(self._file.read_text())

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


if __name__ == "__main__":
    clock = WallClock(Path(sys.argv.pop(1)))
    main(clock)
