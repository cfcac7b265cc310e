"""Run no Python in a forked child until it executes its program.

uvloop forks to start a program, and Python runs in the child until the program does. Whatever the
garbage collector finds there belongs to threads that the child has not: the last object of
grpc.aio, for one, waits for its poller for ever, and the parent waits for the child. And gRPC's own
hooks start its threads again in the child, which then dies of "next_worker->state == KICKED". A
child that goes on in Python can do without a collector for as long as a test lasts.
"""

from __future__ import annotations

import gc
import os
from functools import cache


def start_no_grpc_in_children() -> None:
    """Do so from now on, if gRPC is not loaded yet; the programs that are started do the same."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


@cache
def collect_no_garbage_in_children() -> None:
    """Do so from now on; a fork's hooks cannot be taken back, so once is enough."""
    collecting = False

    def before() -> None:
        nonlocal collecting
        collecting = gc.isenabled()
        gc.disable()

    def after_in_parent() -> None:
        if collecting:
            gc.enable()

    os.register_at_fork(before=before, after_in_parent=after_in_parent)
