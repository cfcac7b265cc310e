"""End a test that hangs, and show what its tasks wait for.

The limit is far beyond what a test takes on a slow machine: it is there so that one that hangs
fails by name, and the others go on.
"""

from __future__ import annotations

import asyncio
import sys

from mesh_testkit._leaks import is_grpcs_own


def end_if_it_hangs(loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
    """Cancel whatever runs in the loop, unless it is closed before the limit; and so again."""
    loop.call_later(limit_s, _give_up, loop, limit_s)


def _give_up(loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
    # All of them: which of its tasks runs the test, a loop does not tell.
    tasks = sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name)
    sys.stderr.write(f"the test was not done after {limit_s:g} s; its tasks then:\n")
    for task in tasks:
        try:
            task.print_stack(file=sys.stderr)
        except Exception as error:  # noqa: BLE001 - compiled coroutines have no stack to show
            sys.stderr.write(f"{task!r}: {error!r}\n")
    for task in tasks:
        if not is_grpcs_own(task):  # which a server's own end would wait for
            task.cancel(f"the test was not done after {limit_s:g} s")
    end_if_it_hangs(loop, limit_s)
