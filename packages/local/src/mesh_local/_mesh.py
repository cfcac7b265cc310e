"""A whole mesh as one lifetime: what starts after what, and what stops before what.

Reading order is start order, and stop order its reverse: first the programs that only call
others, then the agents (each drains its Envoy, while the programs behind it still answer), then
the programs that serve, the control plane last.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mesh_ca import CaError, TokenIssuer, load_or_create_authority
from mesh_lifecycle import SystemClock, in_background
from mesh_local import _plan as ports
from mesh_local import _processes as processes
from mesh_local._addresses import choose_block, is_free, reservations
from mesh_local._children import Child, ChildState, OnExit, last_lines, running
from mesh_local._errors import NotReady, StateError
from mesh_local._guard import guarding
from mesh_local._http import NoAnswer, fetch
from mesh_local._istio import instance_labels, mesh_config, mesh_documents, to_yaml
from mesh_local._mesh_file import MeshFile
from mesh_local._plan import Instance, MeshPlan, needed_endpoints, plan_mesh
from mesh_local._processes import ProcessSpec
from mesh_local._state import LABELS, ROOT_CERTIFICATE, StateFolder, opened, write_file
from mesh_local._status import AgentStatus, fetch_status
from mesh_local._tokens import keep_tokens_fresh, write_tokens

log = logging.getLogger("mesh_local")

CONTROL_PLANE_READY_S = 30.0
STOP_BEYOND_DRAIN_S = 15.0
_POLL_S = 0.05
_WATCH_S = 0.5


@dataclass(slots=True, kw_only=True)
class RunningWorkload:
    """One replica while it runs.

    status: the last look at its agent; None while the agent does not answer.
    app_answers: whether its program accepts connections on all of its ports.
    """

    instance: Instance
    agent: Child
    app: Child | None
    status: AgentStatus | None = None
    app_answers: bool = False

    @property
    def ended(self) -> Child | None:
        """A process of it that ended, whether it is started again or not."""
        for child in (self.agent, self.app):
            if child is not None and child.state in (ChildState.ENDED, ChildState.RESTARTING):
                return child
        return None

    @property
    def hopeless(self) -> bool:
        """Whether it stays as it is: one of its processes ended and is not started again."""
        ended = self.ended
        return ended is not None and ended.state is ChildState.ENDED

    @property
    def not_ready(self) -> str | None:
        """Why it can't be used yet; None when it can."""
        if (ended := self.ended) is not None:
            said = "".join(last_lines(ended.spec.log, 1))
            return f"{ended.spec.name} ended ({ended.last_exit})" + (f": {said}" if said else "")
        if self.status is None:
            return f"its agent does not answer (see {self.agent.spec.log.name})"
        if not self.status.ready:
            return "; ".join(self.status.reasons) or "its agent is not ready"
        if not self.app_answers:
            wanted = ", ".join(str(port.port) for port in self.instance.workload.ports)
            return f"its program does not listen on {self.instance.addresses.app} port {wanted}"
        return None

    @property
    def to_blame(self) -> Child:
        """The process whose log tells why it is not ready."""
        agent_is_well = self.status is not None and self.status.ready
        return self.ended or (self.app if agent_is_well and self.app is not None else self.agent)


@dataclass(slots=True, kw_only=True)
class RunningMesh:
    """A mesh while it runs."""

    plan: MeshPlan
    state: StateFolder
    control_plane: Child
    workloads: tuple[RunningWorkload, ...]
    _looked: asyncio.Event = field(default_factory=asyncio.Event)

    def workload(self, name: str) -> RunningWorkload:
        """Return the replica with this name, or the first of the workload with this name."""
        for each in self.workloads:
            if name in (each.instance.name, each.instance.workload.name):
                return each
        raise KeyError(name)

    def note_look(self) -> None:
        """Say that a workload was looked at, so that those who wait look again."""
        self._looked.set()

    @property
    def children(self) -> tuple[Child, ...]:
        apps = (each.app for each in self.workloads if each.app is not None)
        return (self.control_plane, *(each.agent for each in self.workloads), *apps)

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until every workload can be used; raises `NotReady` naming the first that can't."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                while any(each.not_ready for each in self.workloads):
                    if any(each.hopeless for each in self.workloads):
                        break  # time changes nothing any more
                    self._looked.clear()
                    await self._looked.wait()
        except TimeoutError:
            pass
        for each in sorted(self.workloads, key=lambda each: each.ended is None):
            if (reason := each.not_ready) is not None:
                raise NotReady(
                    f"workload {each.instance.full_name} is not ready after "
                    f"{loop.time() - started:.0f} s: {reason}",
                    log=each.to_blame.spec.log,
                )


@contextmanager
def prepared(file: MeshFile, folder: Path) -> Iterator[tuple[MeshPlan, StateFolder]]:
    """Take addresses and the state folder for a mesh; raises `AddressError`, `StateError`."""
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
    hurry: asyncio.Event | None = None,
) -> AsyncIterator[RunningMesh]:
    """Run a mesh for as long as the block lasts; the control plane is ready when it begins.

    on_exit: what happens when one of its processes ends by itself.
    environ: the environment to give on; this process's own by default.
    hurry: once set, stopping means killing.

    Stopping takes the file's `drain` and 15 s more at most; what still runs then is killed.

    Raises `NotReady` if the control plane does not become so, `ProcessEnded` from the block.
    """
    environ = os.environ if environ is None else environ
    hurry = hurry or asyncio.Event()
    issuer = TokenIssuer(state.tokens, processes.JWT_ISSUER)
    apps = {
        each.name: spec
        for each in plan.instances
        if (spec := processes.app_process(plan, each, state, environ)) is not None
    }
    write_everything(plan, state, issuer)
    proxied = {each.name: asyncio.Event() for each in plan.instances}

    def app_gate(spec: ProcessSpec) -> asyncio.Event:
        return proxied[spec.name]

    async with AsyncExitStack() as stack:
        stop_s = plan.file.drain.total_seconds() + STOP_BEYOND_DRAIN_S
        start_deadline = stack.enter_context(_stop_deadline(hurry, stop_s))
        guard = await stack.enter_async_context(guarding())
        await stack.enter_async_context(
            in_background(
                keep_tokens_fresh(issuer, plan, state, clock=SystemClock()), name="token-renewal"
            )
        )
        (control_plane,) = await stack.enter_async_context(
            running(
                [processes.control_plane_process(plan, state, environ)],
                on_exit=on_exit,
                hurry=hurry,
                guard=guard,
            )
        )
        await _wait_control_plane(plan, control_plane)
        servers = await stack.enter_async_context(
            running(
                [apps[each.name] for each in plan.instances if each.serves and each.name in apps],
                on_exit=on_exit,
                hurry=hurry,
                guard=guard,
                gate=app_gate,
            )
        )
        agents = await stack.enter_async_context(
            running(
                [processes.agent_process(plan, each, state, environ) for each in plan.instances],
                on_exit=on_exit,
                hurry=hurry,
                guard=guard,
            )
        )
        sources = await stack.enter_async_context(
            running(
                [
                    apps[each.name]
                    for each in plan.instances
                    if not each.serves and each.name in apps
                ],
                on_exit=on_exit,
                hurry=hurry,
                guard=guard,
                gate=app_gate,
            )
        )
        by_name = {child.spec.name: child for child in (*servers, *sources)}
        mesh = RunningMesh(
            plan=plan,
            state=state,
            control_plane=control_plane,
            workloads=tuple(
                RunningWorkload(instance=instance, agent=agent, app=by_name.get(instance.name))
                for instance, agent in zip(plan.instances, agents, strict=True)
            ),
        )
        await stack.enter_async_context(
            in_background(_watch_all(mesh, proxied), name="workload-watch")
        )
        try:
            yield mesh
        finally:
            log.info("stopping")
            start_deadline()


@contextmanager
def _stop_deadline(hurry: asyncio.Event, seconds: float) -> Iterator[Callable[[], None]]:
    """Give a function that starts the one clock of the whole stop; when it ends, kill."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    try:
        yield lambda: timers.append(loop.call_later(seconds, hurry.set))
    finally:
        for timer in timers:
            timer.cancel()


def write_everything(plan: MeshPlan, state: StateFolder, issuer: TokenIssuer) -> None:
    """Write the generated configuration, keys and tokens; raises `StateError`."""
    try:
        authority = load_or_create_authority(state.ca, trust_domain=plan.file.mesh.trust_domain)
        issuer.write_jwks(state.jwks)
        write_tokens(issuer, plan, state)
        write_file(state.mesh_config, to_yaml([mesh_config(plan)]))
        write_file(state.config / "mesh-local.yaml", to_yaml(mesh_documents(plan)))
        if plan.file.config:
            write_file(state.config / "from-mesh-file.yaml", to_yaml(plan.file.config))
        if plan.file.config_dir is not None:
            # The control plane follows links, so the user's edits arrive as they are saved.
            (state.config / "user").symlink_to(plan.file.config_dir.resolve())
        for instance in plan.instances:
            directory = state.workload(instance.name)
            write_file(directory / ROOT_CERTIFICATE, authority.root_pem)
            labels = instance_labels(instance).items()
            write_file(directory / LABELS, "".join(f'{name}="{value}"\n' for name, value in labels))
    except CaError as error:
        raise StateError(f"the state folder {state.path} can't be used: {error}") from error
    except OSError as error:
        raise StateError(
            f"the state folder {state.path} can't be written: {error.strerror}"
        ) from None


async def _wait_control_plane(plan: MeshPlan, child: Child) -> None:
    try:
        async with asyncio.timeout(CONTROL_PLANE_READY_S):
            while not await _answers_ready(plan.block.control_plane, plan.http_port, "/ready"):
                if child.restarts:
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


async def _watch_all(mesh: RunningMesh, proxied: Mapping[str, asyncio.Event]) -> None:
    async with asyncio.TaskGroup() as group:
        for workload in mesh.workloads:
            name = workload.instance.name
            group.create_task(_watch(mesh, workload, proxied[name]), name=f"watch {name}")


async def _watch(mesh: RunningMesh, workload: RunningWorkload, proxied: asyncio.Event) -> None:
    """Keep a workload's status up to date; its program may start when its agent is ready."""
    instance = workload.instance
    while True:
        workload.status = await fetch_status(instance.addresses.inbound)
        if workload.status is not None and workload.status.ready:
            proxied.set()
        if proxied.is_set():
            workload.app_answers = await _accepts(instance)
        mesh.note_look()
        await asyncio.sleep(_WATCH_S if workload.not_ready is None else _POLL_S)


async def _accepts(instance: Instance) -> bool:
    if not instance.workload.command:
        return True  # the user's own to start, whenever he likes
    for port in instance.workload.ports:
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(instance.addresses.app, port.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
    return True
