"""A whole mesh as one lifetime: what starts after what, and what stops before what.

Reading order is start order, and stop order its reverse: first the programs that only call
others, then the agents (each drains its Envoy, while the programs behind it still answer), then
the programs that serve, the control plane last.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from mesh_ca import TokenIssuer
from mesh_lifecycle import SystemClock, in_background
from mesh_local._errors import AddressError, NoAnswer, NotReady
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.config import _plan as ports
from mesh_local.config._addresses import choose_block, is_free, reservations
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import (
    Instance,
    MeshPlan,
    gateway_endpoints,
    needed_endpoints,
    plan_mesh,
)
from mesh_local.observation._agent_status import fetch_status
from mesh_local.observation._findings import Places, fetch_findings, refuse_mistakes
from mesh_local.observation._http import fetch
from mesh_local.processes import _specs as processes
from mesh_local.processes._children import Child, ChildState, OnExit, running
from mesh_local.processes._guard import guarding
from mesh_local.processes._specs import ProcessSpec
from mesh_local.processes._start_order import AgentStart, start_some_at_a_time
from mesh_local.state._folder import StateFolder, opened
from mesh_local.state._roots import keep_roots_fresh
from mesh_local.state._tokens import JWT_ISSUER, keep_tokens_fresh
from mesh_local.state._writing import write_everything

log = logging.getLogger("mesh_local")

CONTROL_PLANE_READY_S = 60.0
STOP_BEYOND_DRAIN_S = 15.0
_POLL_S = 0.05
_WATCH_S = 0.5
_LOOKS_A_SECOND = 40
"""At all workloads together: each look costs the agent and this program some milliseconds."""


@contextmanager
def prepared(file: MeshFile, folder: Path) -> Iterator[tuple[MeshPlan, StateFolder]]:
    """Take addresses and the state folder for a mesh; raises `AddressError`, `StateError`."""
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
        free = (port for port in ports.HTTP_PORTS if is_free(block.control_plane, port))
        yield plan_mesh(file, block, http_port=next(free, ports.HTTP_PORTS[0])), state


@asynccontextmanager
async def running_mesh(
    plan: MeshPlan,
    state: StateFolder,
    *,
    on_exit: OnExit = OnExit.RESTART,
    environ: Mapping[str, str] | None = None,
    kill_now: asyncio.Event | None = None,
    allow_unsupported: bool = False,
) -> AsyncIterator[RunningMesh]:
    """Run a mesh for as long as the block lasts; the control plane is ready when it begins.

    on_exit: what happens when one of its processes ends by itself.
    environ: the environment to give on; this process's own by default.
    kill_now: once set, stopping means killing.
    allow_unsupported: accept configuration that Istio has and this mesh does not have yet.

    Stopping takes the file's `drain` and 15 s more at most; what still runs then is killed.

    Raises `ConfigurationError` if the control plane would refuse the configuration, `NotReady` if
    it does not become ready, `ProcessEnded` from the block.
    """
    environ = os.environ if environ is None else environ
    kill_now = kill_now or asyncio.Event()
    issuer = TokenIssuer(state.tokens, JWT_ISSUER)
    apps = {
        each.name: spec
        for each in plan.instances
        if (spec := processes.app_process(plan, each, state, environ)) is not None
    }
    refuse_mistakes(plan, allow_unsupported=allow_unsupported)
    write_everything(plan, state, issuer)
    proxied = {each.name: asyncio.Event() for each in plan.instances}

    def agent_ready(spec: ProcessSpec) -> asyncio.Event:
        return proxied[spec.name]

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        stop_s = plan.file.drain.total_seconds() + STOP_BEYOND_DRAIN_S
        start_deadline = stack.enter_context(_stop_deadline(kill_now, stop_s))
        guard = await enter(guarding())
        guard.clean(state.path)
        run = partial(running, on_exit=on_exit, kill_now=kill_now, guard=guard)
        await enter(_keeping_credentials_fresh(plan, state, issuer))
        spec = processes.control_plane_process(
            plan, state, environ, allow_unsupported=allow_unsupported
        )
        (control_plane,) = await enter(run([spec]))
        await _wait_control_plane(plan, control_plane)
        serving = {each.name for each in plan.instances if each.serves}
        servers = await enter(
            run([spec for name, spec in apps.items() if name in serving], may_start=agent_ready)
        )
        starts = [
            AgentStart(
                processes.agent_process(plan, each, state, environ), ready=proxied[each.name]
            )
            for each in plan.instances
        ]
        may_start = {each.spec.name: each.may_start for each in starts}
        agents = await enter(
            run([each.spec for each in starts], may_start=lambda spec: may_start[spec.name])
        )
        await enter(in_background(_start_agents(starts), name="agents' starts"))
        sources = await enter(
            run([spec for name, spec in apps.items() if name not in serving], may_start=agent_ready)
        )
        mesh = _mesh_of(plan, state, control_plane, agents, apps=(*servers, *sources))
        await enter(in_background(_watch_all(mesh, starts), name="workload-watch"))
        try:
            yield mesh
        finally:
            log.info("stopping")
            start_deadline()


@asynccontextmanager
async def _keeping_credentials_fresh(
    plan: MeshPlan, state: StateFolder, issuer: TokenIssuer
) -> AsyncIterator[None]:
    clock = SystemClock()
    async with (
        in_background(keep_tokens_fresh(issuer, plan, state, clock=clock), name="token-renewal"),
        in_background(keep_roots_fresh(plan, state), name="root-renewal"),
    ):
        yield


def _mesh_of(
    plan: MeshPlan,
    state: StateFolder,
    control_plane: Child,
    agents: Sequence[Child],
    *,
    apps: Sequence[Child],
) -> RunningMesh:
    by_name = {child.spec.name: child for child in apps}
    return RunningMesh(
        plan=plan,
        state=state,
        control_plane=control_plane,
        workloads=tuple(
            RunningWorkload(instance=instance, agent=agent, app=by_name.get(instance.name))
            for instance, agent in zip(plan.instances, agents, strict=True)
        ),
    )


@contextmanager
def _stop_deadline(kill_now: asyncio.Event, seconds: float) -> Iterator[Callable[[], None]]:
    """Yields a function that starts the timer of the whole stop; at its end, `kill_now` is set."""
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


async def _start_agents(starts: Sequence[AgentStart]) -> None:
    """Let the agents start, as many at a time as the machine can bear; never returns."""
    await start_some_at_a_time(starts)
    await asyncio.Event().wait()


async def _watch_all(mesh: RunningMesh, starts: Sequence[AgentStart]) -> None:
    async with asyncio.TaskGroup() as group:
        for workload, start in zip(mesh.workloads, starts, strict=True):
            name = workload.instance.name
            group.create_task(_watch(mesh, workload, start), name=f"watch {name}")
        group.create_task(_watch_configuration(mesh), name="watch configuration")


async def _watch_configuration(mesh: RunningMesh) -> None:
    """Keep the control plane's findings up to date; never returns."""
    places = Places(mesh.plan.file, config=mesh.state.config, mesh_config=mesh.state.mesh_config)
    while True:
        findings = await fetch_findings(mesh.plan, places)
        if findings is not None:
            mesh.findings = findings
        await asyncio.sleep(_WATCH_S)


async def _watch(mesh: RunningMesh, workload: RunningWorkload, start: AgentStart) -> None:
    """Keep a workload's status up to date; its program may start when its agent is ready."""
    instance, proxied = workload.instance, start.ready
    await start.may_start.wait()
    while True:
        workload.status = await fetch_status(instance.addresses.inbound)
        if workload.status is not None and workload.status.ready:
            proxied.set()
        if proxied.is_set():
            workload.app_answers = await _accepts(instance)
        mesh.workload_updated()
        ready = workload.not_ready is None
        begun = [each for each in mesh.workloads if each.agent.state is not ChildState.WAITING]
        alike = sum((each.not_ready is None) == ready for each in begun)
        await asyncio.sleep(pause_s(ready=ready, alike=alike))


def pause_s(*, ready: bool, alike: int) -> float:
    """Return after how long a workload is looked at again.

    ready: whether it is ready, which then only has to be kept true. alike: how many are so.
    """
    return max(_WATCH_S if ready else _POLL_S, alike / _LOOKS_A_SECOND)


async def _accepts(instance: Instance) -> bool:
    if not instance.workload.command:
        return True  # the user starts it
    for port in instance.workload.ports:
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(instance.addresses.app, port.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
    return True
