"""A clock that jumps, for an agent or the control plane: libfaketime reads by how much from a file.

Envoy does not start with that library; it keeps the machine's time.
"""

import asyncio
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesh_chaos._configuration import SERVICES
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh

_JUMPS_S = (-3600, -30, 30, 3600, 86_400)
_READ_EVERY_S = 1


def library() -> Path | None:
    """Return the library that shows processes another time, if it is installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def obstacle() -> str:
    """Return why no clock can jump here; empty if one can."""
    return "" if library() else "there is no libfaketime (Debian's package faketime)"


def environment(file: Path) -> dict[str, str]:
    """Return the variables for a process whose clock is off by what the file says."""
    found = library()
    assert found is not None
    file.write_text("+0")
    return {
        "LD_PRELOAD": str(found),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": str(_READ_EVERY_S),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # It is on by itself, and makes waits in gRPC take minutes.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


def agent_environment(file: Path, envoy: Path) -> dict[str, str]:
    """Return the same for an agent, whose Envoy does without."""
    start = file.with_name("envoy-by-the-machines-clock")
    start.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {shlex.quote(str(envoy))} "$@"\n')
    start.chmod(0o700)
    return environment(file) | {"ENVOY_PATH": str(start)}


async def control_plane_clock_jump(tested: TestedMesh, fault: Fault) -> None:
    """What it has issued by the wrong time does not keep agents from it when the time is right."""
    by_s = _JUMPS_S[fault.draw % len(_JUMPS_S)]
    tested.notes.append(f"{fault}: the clock jumps by {by_s} s")
    plane, file = tested.control_plane, tested.clock_file("control-plane")
    await plane.kill()
    await plane.start(environment(file))
    try:
        await tested.until_ready("control plane")
        with _jumped(file, by_s):
            await asyncio.sleep(fault.lasts_s)
        await asyncio.sleep(2 * _READ_EVERY_S)
        await asyncio.gather(*map(tested.until_renewed, SERVICES))
    finally:
        await plane.kill()
        await plane.start()
    await tested.until_ready("control plane")


async def agent_clock_jump(tested: TestedMesh, fault: Fault) -> None:
    by_s = _JUMPS_S[fault.draw % len(_JUMPS_S)]
    tested.notes.append(f"{fault}: the clock jumps by {by_s} s")
    with _jumped(tested.clock_file(fault.target), by_s):
        await asyncio.sleep(fault.lasts_s)
    await asyncio.sleep(2 * _READ_EVERY_S)
    await tested.until_ready(fault.target)


@contextmanager
def _jumped(file: Path, by_s: int) -> Iterator[None]:
    file.write_text(f"{by_s:+d}")
    try:
        yield
    finally:
        file.write_text("+0")
