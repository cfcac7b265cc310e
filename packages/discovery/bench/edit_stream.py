"""Edits that follow each other at a steady rate, and what they cost; part of `bench_edits`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_edits import Plane


def stream(plane: Plane, kinds: list[str], *, per_s: float, seconds: float) -> None:
    """Edit at a rate, the kinds one after the other, and tell CPU, memory, bytes and the delay."""
    before, cpu, peak_mb = plane.answer_to("stat"), plane.server.cpu_s(), 0.0
    began = time.time()
    number = 0
    while (due := began + number / per_s) < began + seconds:
        time.sleep(max(0.0, due - time.time()))
        plane.files.edit(kinds[number % len(kinds)])
        peak_mb = max(peak_mb, plane.server.memory_mb()[2])
        number += 1
    took_s, used_s = time.time() - began, plane.server.cpu_s() - cpu
    after = plane.answer_to("stat")
    plane.edit(kinds[0], quiet_s=0)
    delay_s = plane.figures[kinds[0]].last_s[-1]
    sent_mb = (after["bytes"] - before["bytes"]) / 1e6
    messages = after["messages"] - before["messages"]
    print(
        f"{plane.name:8} {number} edits in {took_s:.1f} s: {used_s / took_s:.2f} of a core, "
        f"{sent_mb:.0f} MB in {messages} responses, at most {peak_mb:.0f} MB unique, "
        f"the edit after them with the last sidecar after {delay_s:.2f} s",
        file=sys.stdout,
        flush=True,
    )
