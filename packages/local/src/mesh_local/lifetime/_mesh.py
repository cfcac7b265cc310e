"""A whole mesh as one lifetime: what starts after what, and what stops before what.

Reading order is start order, and stop order its reverse: first the programs that only call
others, then the agents (each drains its Envoy, while the programs behind it still answer), then
the programs that serve, the control plane last.
"""

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from mesh_ca import TokenIssuer
from mesh_lifecycle import SystemClock, in_background
from mesh_local._errors import AddressError, NoAnswer, NotReady
from mesh_local._running_mesh import RunningMesh
from mesh_local.capture._networks import networks
from mesh_local.config import _plan as ports
from mesh_local.config._addresses import (
    Block,
    RedirectedBlock,
    choose_block,
    is_free,
    reservations,
)
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import (
    Instance,
    MeshPlan,
    gateway_endpoints,
    needed_endpoints,
    plan_mesh,
)
from mesh_local.lifetime._before_start import all_findings, refuse_problems
from mesh_local.lifetime._replica import Surroundings, replica_plans
from mesh_local.lifetime._replicas import Replicas
from mesh_local.observation._findings import Findings, Places, fetch_findings
from mesh_local.observation._http import fetch
from mesh_local.processes import _specs as processes
from mesh_local.processes._child_group import child_group
from mesh_local.processes._children import Child, ChildState, OnExit
from mesh_local.processes._guard import guarding
from mesh_local.processes._start_order import StartOrder
from mesh_local.processes._task_group import tasks_beside
from mesh_local.state._folder import StateFolder, opened
from mesh_local.state._roots import keep_roots_fresh
from mesh_local.state._tokens import JWT_ISSUER, keep_tokens_fresh
from mesh_local.state._writing import write_everything

log = logging.getLogger("mesh_local")

CONTROL_PLANE_READY_S = 60.0
STOP_BEYOND_DRAIN_S = 15.0
_POLL_S = 0.05
_WATCH_S = 0.5


@contextmanager
def prepared(
    file: MeshFile, folder: Path, *, redirected: bool = False
) -> Iterator[tuple[MeshPlan, StateFolder]]:
    """Take addresses and the state folder for a mesh; raises `AddressError`, `StateError`.

    redirected: each workload gets a network, in which its connections are redirected; this process
    is at their hub.
    """
    if redirected:
        with opened(folder) as state:
            yield _plan(file, RedirectedBlock(folder=state.networks)), state
        return
    for workload, (address, port) in gateway_endpoints(file):
        if not is_free(address, port):
            raise AddressError(
                f"{address}:{port}, a port of the gateway {workload.name}, is in use: stop what "
                "listens there, or give the gateway another port or address"
            )
    with reservations() as reserve, opened(folder) as state:
        block = choose_block(
            lambda block: needed_endpoints(plan_mesh(file, block)), reserve=reserve
        )
        yield _plan(file, block), state


def _plan(file: MeshFile, block: Block | RedirectedBlock) -> MeshPlan:
    free = (port for port in ports.HTTP_PORTS if is_free(block.control_plane, port))
    return plan_mesh(file, block, http_port=next(free, ports.HTTP_PORTS[0]))


@asynccontextmanager
async def running_mesh(
    plan: MeshPlan,
    state: StateFolder,
    *,
    on_exit: OnExit = OnExit.RESTART,
    environ: Mapping[str, str] | None = None,
    kill_now: asyncio.Event | None = None,
    allow_unsupported: bool = False,
    on_findings: Callable[[Findings], None] = refuse_problems,
) -> AsyncIterator[RunningMesh]:
    """Run a mesh for as long as the block lasts; the control plane is ready when it begins.

    on_exit: what happens when one of its processes ends by itself.
    environ: the environment to give on; this process's own by default.
    kill_now: once set, stopping means killing.
    allow_unsupported: accept configuration that Istio has and this mesh does not have yet.
    on_findings: called before the start with what is wrong; raises what keeps the mesh from it.

    Stopping takes the file's `drain` and 15 s more at most; what still runs then is killed.

    Raises `ConfigurationError` if a program is not there or the control plane would refuse the
    configuration, `NotReady` if it does not become ready, `ProcessEnded` from the block.
    """
    async with editable_mesh(
        plan,
        state,
        on_exit=on_exit,
        environ=environ,
        kill_now=kill_now,
        allow_unsupported=allow_unsupported,
        on_findings=on_findings,
    ) as (mesh, _):
        yield mesh


@asynccontextmanager
async def editable_mesh(
    plan: MeshPlan,
    state: StateFolder,
    *,
    on_exit: OnExit = OnExit.RESTART,
    environ: Mapping[str, str] | None = None,
    kill_now: asyncio.Event | None = None,
    allow_unsupported: bool = False,
    on_findings: Callable[[Findings], None] = refuse_problems,
) -> AsyncIterator[tuple[RunningMesh, Replicas]]:
    """Run a mesh as `running_mesh` does, with the means to change it while it runs."""
    environ = os.environ if environ is None else environ
    kill_now = kill_now or asyncio.Event()
    issuer = TokenIssuer(state.tokens, JWT_ISSUER)
    findings = all_findings(plan, environ, allow_unsupported=allow_unsupported)
    on_findings(findings)
    wanted = replica_plans(plan, state, environ, findings.starts)
    write_everything(plan, state, issuer)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        stop_s = plan.file.drain.total_seconds() + STOP_BEYOND_DRAIN_S
        start_deadline = stack.enter_context(_stop_deadline(kill_now, stop_s))
        guard = await enter(guarding())
        guard.clean(state.path)
        workload_networks = None
        if isinstance(plan.block, RedirectedBlock):
            opening = networks(plan.block, dns_port=plan.dns_port)
            workload_networks = stack.enter_context(opening)
            guard.own_namespace()
        group = partial(child_group, on_exit=on_exit, kill_now=kill_now, guard=guard)
        spec = processes.control_plane_process(
            plan, state, environ, allow_unsupported=allow_unsupported
        )
        control_plane = (await enter(group(name="the control plane"))).start(spec)
        mesh = RunningMesh(plan=plan, state=state, control_plane=control_plane, workloads=())
        await enter(_keeping_credentials_fresh(mesh, issuer))
        await _wait_control_plane(plan, control_plane)
        order, restarts = StartOrder(), defaultdict[str, asyncio.Lock](asyncio.Lock)
        surroundings = Surroundings(
            mesh=mesh,
            issuer=issuer,
            servers=await enter(group(name="programs that serve")),
            agents=await enter(group(name="agents")),
            sources=await enter(group(name="programs that call")),
            networks=workload_networks,
            order=order,
            kill_now=kill_now,
            restarting=restarts.__getitem__,
        )
        await enter(in_background(order.run(), name="agents' starts"))
        await enter(in_background(_watch_configuration(mesh), name="watch configuration"))
        replicas = Replicas(
            surroundings,
            await enter(tasks_beside("replicas")),
            environ=environ,
            allow_unsupported=allow_unsupported,
        )
        replicas.begin(wanted.values(), findings.starts)
        try:
            yield mesh, replicas
        finally:
            log.info("stopping")
            start_deadline()


@asynccontextmanager
async def _keeping_credentials_fresh(mesh: RunningMesh, issuer: TokenIssuer) -> AsyncIterator[None]:
    def instances() -> tuple[Instance, ...]:
        return tuple(each.instance for each in (*mesh.workloads, *mesh.leaving))

    tokens = keep_tokens_fresh(issuer, instances, mesh.state, clock=SystemClock())
    async with (
        in_background(tokens, name="token-renewal"),
        in_background(keep_roots_fresh(instances, mesh.state), name="root-renewal"),
    ):
        yield


@contextmanager
def _stop_deadline(kill_now: asyncio.Event, seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function that starts the timer of the whole stop; at its end, `kill_now` is set."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    try:
        yield lambda: timers.append(loop.call_later(seconds, kill_now.set))
    finally:
        for timer in timers:
            timer.cancel()


async def _wait_control_plane(plan: MeshPlan, child: Child) -> None:
    try:
        async with asyncio.timeout(CONTROL_PLANE_READY_S):
            while not await _answers_ready(plan.block.control_plane, plan.http_port, "/ready"):
                if child.restarts or child.state is ChildState.ENDED:
                    raise NotReady(
                        f"the control plane does not start ({child.last_exit})", log=child.spec.log
                    )
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise NotReady(
            f"the control plane is not ready after {CONTROL_PLANE_READY_S:g} s", log=child.spec.log
        ) from None
    log.info("control plane ready", extra={"address": plan.discovery_address})


async def _answers_ready(host: str, port: int, target: str) -> bool:
    try:
        return (await fetch(host, port, target=target, timeout_s=2.0)).status == 200
    except NoAnswer:
        return False


async def _watch_configuration(mesh: RunningMesh) -> None:
    """Keep up to date whether the control plane answers, and its findings; never returns."""
    while True:
        places = Places(
            mesh.plan.file, config=mesh.state.config, mesh_config=mesh.state.mesh_config
        )
        findings = await fetch_findings(mesh.plan, places)
        mesh.control_plane_answers = findings is not None
        if findings is not None:
            mesh.findings = findings
        await asyncio.sleep(_WATCH_S)
