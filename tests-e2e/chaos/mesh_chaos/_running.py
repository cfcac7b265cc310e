"""A run: the mesh is set up, faults happen under traffic, and it is calm again at the end."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from envoy_supervisor import find_envoy
from mesh_chaos import _disks
from mesh_chaos import _tested_mesh as meshes
from mesh_chaos._observing import (
    Observations,
    files_of,
    issued_serials,
    left_behind,
    log_lines,
    observe,
)
from mesh_chaos._parts import Part
from mesh_chaos._resolvers import Resolver, resolv_conf, resolvers
from mesh_chaos._schedule import Fault, Kind, apart_s, schedule
from mesh_chaos._tested_mesh import SERVICES, Binaries, TestedMesh, mesh_text, put
from mesh_chaos._traffic import Traffic, traffic
from mesh_chaos._waiting import NotSoon
from mesh_chaos.faults import ACTS, obstacles
from mesh_chaos.faults._storage import keep_state, until_saved
from mesh_e2e import mesh_of
from mesh_local import MeshPlan, StateFolder
from mesh_testkit import SmallDisk, find_free_port, small_disk

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
    async with _tested(directory, seen) as tested:
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
    return outcome


def _targets(tested: TestedMesh) -> dict[Kind, Sequence[str]]:
    return {
        Kind.RESOLVER_DEAD: sorted(tested.resolvers),
        Kind.RESOLVER_LYING: sorted(tested.resolvers),
    }


@asynccontextmanager
async def _tested(directory: Path, seen: Observations) -> AsyncIterator[TestedMesh]:
    """Run the mesh, on disks of its own and with resolvers of its own where that can be."""
    rules = directory / "rules"
    rules.mkdir()
    port = find_free_port()
    put(rules / "gateway.yaml", meshes.GATEWAY.format(port=port, host=meshes.EDGE_HOST))
    put(rules / "edition.yaml", meshes.EDITION.format(edition=0, host=meshes.EDGE_HOST))
    binaries = _binaries(directory)
    environ = {
        **os.environ,
        "ENVOY_PATH": str(binaries.link),
        "SECRET_GRACE_PERIOD_RATIO": meshes.LEFT_AT_RENEWAL,
    }
    async with AsyncExitStack() as stack:
        found: dict[str, Resolver] = {}
        disks: dict[str, SmallDisk] = {}
        if not _disks.obstacle():
            hosts = [f"127.62.{os.getpid() % 250}.{number}" for number in (53, 54)]
            found = await stack.enter_async_context(
                resolvers(hosts, suffix=meshes.OUTSIDE, address=meshes.OUTSIDE_ADDRESS)
            )
            stack.enter_context(
                _disks.in_place_of(Path("/etc/resolv.conf"), resolv_conf(hosts, directory))
            )
        mesh = await stack.enter_async_context(
            mesh_of(
                mesh_text(port),
                directory,
                environ=environ,
                beside=partial(_small_disks, seen=seen, disks=disks),
            )
        )
        tested = TestedMesh(
            mesh=mesh,
            directory=directory,
            edge_port=port,
            parts={
                "control plane": Part("control plane", mesh.control_plane, {}),
                **{
                    each.instance.name: Part(each.instance.name, each.agent, {})
                    for each in mesh.workloads
                },
            },
            resolvers=found,
            disks=disks,
            environment=environ,
            binaries=binaries,
        )
        stack.push_async_callback(_kill_all, tested)
        for workload in SERVICES:
            await until_saved(tested, workload)
            keep_state(tested, workload)
        yield tested


@contextmanager
def _small_disks(
    plan: MeshPlan, state: StateFolder, *, seen: Observations, disks: dict[str, SmallDisk]
) -> Iterator[None]:
    """Have disks of their own for those that write; note what is left on them at the end."""
    with ExitStack() as stack:
        if not _disks.obstacle():
            disks["control plane"] = stack.enter_context(
                small_disk(state.ca, kib=meshes.CA_DISK_KIB)
            )
            for name in (each.name for each in plan.instances):
                disk = small_disk(state.workload(name), kib=meshes.WORKLOAD_DISK_KIB)
                disks[name] = stack.enter_context(disk)
        yield
        seen.left = left_behind(state.path, seen.shared_memory)


def _binaries(directory: Path) -> Binaries:
    installed, copy = find_envoy(), directory / "envoy-copy"
    shutil.copy(installed, copy)
    link = directory / "envoy"
    link.symlink_to(installed)
    return Binaries(link=link, files=(installed, copy))


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


async def _kill_all(tested: TestedMesh) -> None:
    for part in tested.parts.values():
        with suppress(NotSoon):
            await part.kill_started()


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
