"""Sets the mesh up: its disks, resolvers, clocks and the way to its authority, as far as can be."""

import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

from envoy_supervisor import find_envoy
from mesh_chaos import _configuration as configuration
from mesh_chaos import _disks
from mesh_chaos._authority import AuthorityWay, authority_way
from mesh_chaos._lanes import EDGE_HOST, OUTSIDE, OUTSIDE_ADDRESS
from mesh_chaos._observing import Observations, left_behind
from mesh_chaos._parts import Part
from mesh_chaos._resolvers import Resolver, resolv_conf, resolvers
from mesh_chaos._schedule import Kind
from mesh_chaos._tested_mesh import Binaries, TestedMesh
from mesh_chaos._waiting import NotSoon
from mesh_chaos.faults._clocks import agent_environment as clock_environment
from mesh_chaos.faults._storage import keep_state, until_saved
from mesh_e2e import mesh_of
from mesh_local import MeshPlan, RunningMesh, StateFolder
from mesh_testkit import SmallDisk, find_free_port, small_disk

_SOON_REPLACED = {"drainDuration": "3s", "parentShutdownDuration": "6s"}
"""How long the old Envoy stays after a hot restart."""
WITH_A_CLOCK = "backend-2"
"""The workload whose agent has a clock that can jump."""


@asynccontextmanager
async def tested_mesh(
    directory: Path, seen: Observations, skipped: Mapping[Kind, str]
) -> AsyncIterator[TestedMesh]:
    """Run the mesh, on disks of its own and with resolvers of its own where that can be."""
    rules = directory / "rules"
    rules.mkdir()
    port = find_free_port()
    configuration.put(
        rules / "gateway.yaml", configuration.GATEWAY.format(port=port, host=EDGE_HOST)
    )
    configuration.put(
        rules / "edition.yaml", configuration.EDITION.format(edition=0, host=EDGE_HOST)
    )
    binaries = _binaries(directory)
    environ = {
        **os.environ,
        "ENVOY_PATH": str(binaries.link),
        "SECRET_GRACE_PERIOD_RATIO": configuration.LEFT_AT_RENEWAL,
    }
    async with AsyncExitStack() as stack:
        found: dict[str, Resolver] = {}
        disks: dict[str, SmallDisk] = {}
        if not _disks.obstacle():
            hosts = [f"127.62.{os.getpid() % 250}.{number}" for number in (53, 54)]
            found = await stack.enter_async_context(
                resolvers(hosts, suffix=OUTSIDE, address=OUTSIDE_ADDRESS)
            )
            stack.enter_context(
                _disks.in_place_of(Path("/etc/resolv.conf"), resolv_conf(hosts, directory))
            )
        mesh = await stack.enter_async_context(
            mesh_of(
                configuration.mesh_text(port),
                directory,
                environ=environ,
                beside=partial(_small_disks, seen=seen, disks=disks),
            )
        )
        host, _, own_port = mesh.plan.discovery_address.rpartition(":")
        authority = await stack.enter_async_context(
            authority_way(f"127.63.{os.getpid() % 250}.1", (host, int(own_port)))
        )
        tested = TestedMesh(
            mesh=mesh,
            directory=directory,
            edge_port=port,
            parts=_parts(mesh, _environments(mesh, directory, binaries, authority, skipped)),
            resolvers=found,
            disks=disks,
            authority=authority,
            environment=environ,
            binaries=binaries,
        )
        stack.push_async_callback(_kill_all, tested)
        await _start_again(tested)
        for workload in configuration.SERVICES:
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
                small_disk(state.ca, kib=configuration.CA_DISK_KIB)
            )
            for name in (each.name for each in plan.instances):
                disk = small_disk(state.workload(name), kib=configuration.WORKLOAD_DISK_KIB)
                disks[name] = stack.enter_context(disk)
        yield
        seen.left = left_behind(state.path, seen.shared_memory)


def _binaries(directory: Path) -> Binaries:
    installed, copy = find_envoy(), directory / "envoy-copy"
    shutil.copy(installed, copy)
    link = directory / "envoy"
    link.symlink_to(installed)
    return Binaries(link=link, files=(installed, copy))


def _parts(mesh: RunningMesh, environments: Mapping[str, Mapping[str, str]]) -> dict[str, Part]:
    agents = {each.instance.name: each.agent for each in mesh.workloads}
    plane = Part("control plane", mesh.control_plane, arguments=("--ca-signers", "1"))
    return {"control plane": plane} | {
        name: Part(name, child, environment=environments[name]) for name, child in agents.items()
    }


def _environments(
    mesh: RunningMesh,
    directory: Path,
    binaries: Binaries,
    authority: AuthorityWay,
    skipped: Mapping[Kind, str],
) -> dict[str, dict[str, str]]:
    """What agents are told that mesh-local does not tell them."""
    environments = {}
    for each in mesh.workloads:
        proxy_config = json.loads(each.agent.spec.environment["PROXY_CONFIG"])
        environments[each.instance.name] = {
            "CA_ADDR": authority.address,
            "PROXY_CONFIG": json.dumps(proxy_config | _SOON_REPLACED),
        }
    if Kind.AGENT_CLOCK_JUMP not in skipped:
        clock = directory / f"{WITH_A_CLOCK}.clock"
        environments[WITH_A_CLOCK] |= clock_environment(clock, binaries.link)
    return environments


async def _start_again(tested: TestedMesh) -> None:
    """Have every program as it is told here."""
    for part in tested.parts.values():
        await part.kill()
        await part.start()
    for name in tested.parts:
        await tested.until_ready(name)


async def _kill_all(tested: TestedMesh) -> None:
    for part in tested.parts.values():
        with suppress(NotSoon):
            await part.kill_started()
