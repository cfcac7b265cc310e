"""A run: the mesh is set up, faults happen under traffic, and it is calm again at the end."""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mesh_chaos._configuration import SERVICES
from mesh_chaos._observing import (
    Observations,
    files_of,
    issued_serials,
    log_lines,
    observe,
    tracebacks,
)
from mesh_chaos._schedule import Fault, Kind, apart_s, schedule
from mesh_chaos._setting_up import WITH_A_CLOCK, tested_mesh
from mesh_chaos._tested_mesh import TestedMesh
from mesh_chaos._traffic import Traffic, traffic
from mesh_chaos._waiting import NotSoon
from mesh_chaos.faults import ACTS, obstacles

WARM_UP_S = 10.0
CALM_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """A fault that was carried out; times are seconds since the first could come."""

    fault: Fault
    begun_s: float
    ended_s: float


@dataclass(slots=True, kw_only=True)
class Outcome:
    """All that was noted of a run, before it is judged."""

    seed: int
    seconds: float
    skipped: Mapping[Kind, str]
    happened: list[Happened] = field(default_factory=list)
    not_reached: int = 0
    began_at: float = 0.0
    tested: TestedMesh
    traffic: Traffic
    observations: Observations
    issued: Mapping[str, frozenset[str]] = field(default_factory=dict)
    lines: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    files: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})


async def run(directory: Path, *, seed: int, seconds: float, only: Sequence[Kind] = ()) -> Outcome:
    """Run for so many seconds, start and stop not counted. only: no faults but of these kinds."""
    skipped = obstacles()
    chosen = [kind for kind in Kind if kind not in skipped and (not only or kind in only)]
    seen = Observations()
    async with tested_mesh(directory, seen, skipped) as tested:
        faults = schedule(
            seed,
            seconds=seconds - WARM_UP_S - CALM_S,
            services=SERVICES,
            kinds=chosen,
            targets=_targets(tested),
        )
        async with traffic(tested.lanes(), directory / "traffic.log") as sent:
            outcome = Outcome(
                seed=seed,
                seconds=seconds,
                skipped=skipped,
                tested=tested,
                traffic=sent,
                observations=seen,
            )
            tested.traffic = sent
            looking = asyncio.create_task(observe(tested, seen), name="observations")
            try:
                await asyncio.sleep(WARM_UP_S)
                logs = tested.mesh.state.logs
                lines, files = log_lines(logs), files_of(tested)
                await _carry_out(outcome, faults, seconds - WARM_UP_S - CALM_S)
                await _calm(tested)
                await asyncio.sleep(CALM_S)
                outcome.lines, outcome.files = (lines, log_lines(logs)), (files, files_of(tested))
            finally:
                looking.cancel()
                await asyncio.wait([looking])
            if not looking.cancelled():
                looking.result()
        outcome.issued = issued_serials(tested)
        await _end(tested)
        seen.tracebacks = tracebacks(tested.mesh.state.logs)
    return outcome


def _targets(tested: TestedMesh) -> dict[Kind, Sequence[str]]:
    return {
        Kind.AGENT_CLOCK_JUMP: [WITH_A_CLOCK],
        Kind.RESOLVER_DEAD: sorted(tested.resolvers),
        Kind.RESOLVER_LYING: sorted(tested.resolvers),
    }


async def _carry_out(outcome: Outcome, faults: Sequence[Fault], seconds: float) -> None:
    """Have each fault at its time, or when those that it can't be beside are over."""
    outcome.began_at = began = time.monotonic()
    under_way: dict[Fault, asyncio.Task[None]] = {}
    ended: dict[Fault, float] = {}

    async def one(fault: Fault) -> None:
        begun = time.monotonic()
        try:
            await ACTS[fault.kind](outcome.tested, fault)
        except (NotSoon, OSError, AssertionError) as error:
            outcome.tested.problem(f"{fault}: {error}")
        ended[fault] = time.monotonic()
        happened = Happened(fault=fault, begun_s=begun - began, ended_s=ended[fault] - began)
        outcome.happened.append(happened)
        _tell(f"t={happened.begun_s:7.1f} s {fault}, over after {ended[fault] - begun:.1f} s")

    async with asyncio.TaskGroup() as group:
        for position, fault in enumerate(faults):
            await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
            for other in list(under_way):
                apart = apart_s(other, fault, SERVICES)
                if apart is not None:
                    await asyncio.wait([under_way[other]])
                    wait_s = ended.get(other, 0.0) + apart - time.monotonic()
                    await asyncio.sleep(max(0.0, wait_s if apart > 10 else 0.0))
            if time.monotonic() > began + seconds:
                outcome.not_reached = len(faults) - position
                return
            under_way[fault] = group.create_task(one(fault), name=str(fault))


async def _calm(tested: TestedMesh) -> None:
    """The last configuration acts everywhere, and every part is well."""
    try:
        for name in tested.parts:
            await tested.until_ready(name)
        tested.edit(999)
        await tested.until_in_use()
        for workload in SERVICES:
            await tested.until_current(workload)
    except NotSoon as error:
        tested.problem(f"at the end: {error}")


async def _end(tested: TestedMesh) -> None:
    """End what was started here, agents first."""
    for name, part in reversed(list(tested.parts.items())):
        if said := await part.end(timeout_s=30):
            tested.problem(f"at the end: {said}; see {part.spec.log.name}")
        del name


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
