"""The figures of the agent's own process, as the kernel has them."""

import os
import resource
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from mesh_status_server import Metric, counter, gauge


class ProcessFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's figures of this process; None: it is out of descriptors to read them by."""

    resident_bytes: int | None
    cpu_s: float
    open_descriptors: int | None


def this_process() -> ProcessFigures:
    """Return the figures of this process, read now."""
    cpu_s = time.process_time()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, needs no paths
    except OSError:
        return ProcessFigures(resident_bytes=None, cpu_s=cpu_s, open_descriptors=None)
    return ProcessFigures(
        resident_bytes=pages * resource.getpagesize(), cpu_s=cpu_s, open_descriptors=descriptors
    )


def process_age_s() -> float:
    """Return how long ago this process was started; the first call needs a descriptor."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - _started_s()


@cache
def _started_s() -> float:
    stat = Path("/proc/self/stat").read_bytes()
    # The name, in parentheses, may hold anything; the start is the 20th field behind it, proc(5).
    return int(stat.rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def process_metrics(figures: ProcessFigures) -> Iterator[Metric]:
    """The metrics of the agent's own process."""
    if figures.resident_bytes is not None:
        yield gauge(
            "istio_agent_process_resident_memory_bytes", "Resident memory.", figures.resident_bytes
        )
    yield counter(
        "istio_agent_process_cpu_seconds_total", "CPU time, user and system.", figures.cpu_s
    )
    if figures.open_descriptors is not None:
        yield gauge(
            "istio_agent_process_open_fds", "Open file descriptors.", figures.open_descriptors
        )
