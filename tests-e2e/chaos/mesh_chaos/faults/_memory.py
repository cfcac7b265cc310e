"""An Envoy that the kernel kills because its control group has no memory left."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh
from mesh_chaos._waiting import soon
from mesh_e2e import Target, Unanswered, alive, send

_ROOT = Path("/sys/fs/cgroup")
_LIMIT = 1 << 12
"""A page, of what it takes from then on: memory that a process brings along is not counted."""


def obstacle() -> str:
    """Return why no group can be limited here; empty if one can."""
    if _home() is None:
        return "no control group for memory can be made here"
    return ""


def _home() -> tuple[Path, str] | None:
    """Where groups are made, and the name of the file with the limit: version 2, or 1."""
    for home, limit in ((_ROOT, "memory.max"), (_ROOT / "memory", "memory.limit_in_bytes")):
        if os.access(home / "cgroup.procs", os.W_OK):
            with suppress(OSError), _group(home) as group:
                if (group / limit).exists():
                    return home, limit
    return None


@contextmanager
def _group(home: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="mesh-chaos-", dir=home))
    try:
        yield path
    finally:
        for pid in (path / "cgroup.procs").read_text().split():  # the kernel has not ended it
            with suppress(OSError):
                (home / "cgroup.procs").write_text(pid)
        path.rmdir()


async def envoy_out_of_memory(tested: TestedMesh, fault: Fault) -> None:
    home = _home()
    assert home is not None
    root, limit = home
    pids = tested.agent(fault.target).envoys()
    address = tested.workload(fault.target).instance.addresses.inbound
    with _group(root) as group:
        (group / limit).write_text(str(_LIMIT))
        with tested.dying(fault.target):
            for pid in pids:
                with suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(pid))

            async def is_dead() -> bool:
                # It takes memory for what it is asked.
                with suppress(OSError, Unanswered):
                    await send(Target(host=address, port=15000, url="/config_dump", timeout_s=1))
                return not any(map(alive, pids))

            await soon(is_dead, what="the kernel to end an Envoy that has no memory")
        await tested.until_ready(fault.target)
