"""Runs one replica as the mesh file wants it: its agent, its program, and its place in the service.

What is wanted may change at any time. The replica then stops what is not as wanted, starts what is
missing, and looks again: the newest counts, whatever was under way for an older one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mesh_ca import TokenIssuer
from mesh_lifecycle import in_background
from mesh_local._errors import ConfigurationError, MeshLocalError, NetworkError, StateError
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.capture._networks import Networks
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.lifetime._leaving import until_idle, until_out_of_service
from mesh_local.lifetime._watching import watch_replica
from mesh_local.processes._child_group import ChildGroup
from mesh_local.processes._children import Child
from mesh_local.processes._specs import ProcessSpec, agent_process, app_process
from mesh_local.processes._start_order import LONGEST_START_S, AgentStart, StartOrder
from mesh_local.state._configuration_files import remove_replica, write_replica
from mesh_local.state._folder import StateFolder
from mesh_local.state._istio import instance_labels
from mesh_local.state._writing import remove_agent_files, write_agent_files

if TYPE_CHECKING:
    from mesh_discovery import StartSettings

log = logging.getLogger("mesh_local")

_TRY_AGAIN_S = 2.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """A replica as it is to be: where and who it is, and how its processes are started.

    labels: what its agent reads from a file at its start.
    """

    instance: Instance
    agent: ProcessSpec
    labels: Mapping[str, str]
    program: ProcessSpec | None

    @property
    def of_agent(self) -> tuple[ProcessSpec, Mapping[str, str]]:
        """All that an agent has at its start: another one has to be started if this differs."""
        return self.agent, self.labels


def replica_plans(
    plan: MeshPlan,
    state: StateFolder,
    environ: Mapping[str, str],
    starts: "Mapping[str, StartSettings]",
) -> dict[str, ReplicaPlan]:
    """Return what each replica is to be, by name; raises `ConfigurationError` without a program.

    starts: how ProxyConfigs want the agents to be started, by the replicas' names.
    """
    found, problems = dict[str, ReplicaPlan](), dict[str, None]()
    for instance in plan.instances:
        try:
            found[instance.name] = ReplicaPlan(
                instance=instance,
                agent=agent_process(
                    plan, instance, state, environ, start=starts.get(instance.name)
                ),
                labels=instance_labels(instance),
                program=app_process(plan, instance, state, environ),
            )
        except MeshLocalError as error:
            problems[str(error)] = None  # once for all replicas
    if problems:
        raise ConfigurationError("\n".join(problems))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The things that the replicas of a mesh share.

    servers, sources: programs that serve, and those that only call others.
    networks: the workloads' own, if their connections are redirected.
    restarting: a lock for each workload's name; the replica that holds it is started again, and
    the others serve meanwhile.
    """

    mesh: RunningMesh
    issuer: TokenIssuer
    servers: ChildGroup
    agents: ChildGroup
    sources: ChildGroup
    networks: Networks | None
    order: StartOrder
    kill_now: asyncio.Event
    restarting: Callable[[str], asyncio.Lock]


class Replica:
    """One replica; `run` keeps it as it is wanted, until it is wanted no more."""

    workload: RunningWorkload
    agent_start: AgentStart

    def __init__(
        self, wanted: ReplicaPlan, surroundings: Surroundings, *, on_change: Callable[[], None]
    ) -> None:
        """on_change: called when the replica has become another one, or has gone."""
        self._wanted: ReplicaPlan | None = wanted
        self._shared = surroundings
        self._state = surroundings.mesh.state
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._agent: tuple[ProcessSpec, Mapping[str, str]] | None = None
        """What the agent was started with; None while none runs."""
        self._program: ProcessSpec | None = None
        self._group = surroundings.sources
        self._after: Sequence[Replica] = ()
        self._in_service = False
        self.gone = False

    @property
    def name(self) -> str:
        return self.workload.instance.name

    @property
    def is_wanted(self) -> bool:
        return self._wanted is not None

    def begin(
        self, wanted: ReplicaPlan, *, in_service: bool, after: Sequence["Replica"] = ()
    ) -> None:
        """Have its processes wait for their turn.

        in_service: its files are written, and others send it requests from the beginning; else they
        do so when it is ready. after: replicas that have to be gone before it starts.
        """
        self._in_service, self._after = in_service, after
        if not in_service:
            self._write_files(wanted)
        self.agent_start = AgentStart(wanted.instance.name)
        self.workload = RunningWorkload(
            instance=wanted.instance, agent=self._started_agent(wanted), app=None
        )
        self._start_missing(wanted)

    def want(self, wanted: ReplicaPlan | None) -> None:
        """Have it become this, or stop."""
        if wanted != self._wanted:
            self._wanted = wanted
            self.workload.leaving = wanted is None
            self._changed.set()

    async def run(self) -> None:
        """Keep it as it is wanted; returns when it has stopped, as it is no longer wanted."""
        watching = watch_replica(self._shared.mesh, self)
        async with in_background(watching, name=f"watch {self.name}"):
            await self._until(lambda: all(each.gone for each in self._after))
            self._shared.order.add(self.agent_start)
            await self._enter_service()
            while not self.gone:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self._change()
                    self.workload.trouble = None
                except (OSError, StateError, NetworkError) as error:
                    self.workload.trouble = str(error)
                    log.warning("replica can't be changed", extra={"reason": str(error)})
                    await self._wait_changed(_TRY_AGAIN_S)
                    self._changed.set()

    async def _change(self) -> None:
        async with self._turn():
            await self._become_as_wanted()
            if self._wanted is None:
                remove_replica(self._state.config, self.workload.instance)
                remove_agent_files(self.workload.instance, self._state)
                if (networks := self._shared.networks) is not None:
                    networks.close(self.workload.instance.position)
                self.gone = True
            self._on_change()
            if not self.gone:
                await self._enter_service()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until no other replica of the workload is being started again."""
        if self._wanted is None or self._stopping_parts() == (False, False):
            yield
            return
        async with self._shared.restarting(self.workload.instance.workload.name):
            yield

    def _stopping_parts(self) -> tuple[bool, bool]:
        """Return whether the agent runs and is not as wanted, and the same of the program."""
        wanted = self._wanted
        return (
            self._agent is not None and (wanted is None or self._agent != wanted.of_agent),
            self._program is not None and (wanted is None or self._program != wanted.program),
        )

    async def _become_as_wanted(self) -> None:
        while any(self._stopping_parts()):
            await self._leave_service()
            agent, program = self._stopping_parts()
            await self._stop(agent=agent, program=program)
        if (wanted := self._wanted) is not None:
            if self.workload.instance != wanted.instance or self._agent is None:
                self._write_files(wanted)
            self.workload.instance = wanted.instance
            self._start_missing(wanted)

    def _write_files(self, wanted: ReplicaPlan) -> None:
        if self._agent is None:
            write_agent_files(wanted.instance, self._state, self._shared.issuer)
        config = self._state.config
        write_replica(config, wanted.instance, in_service=self._in_service)

    def _start_missing(self, wanted: ReplicaPlan) -> None:
        if self._agent is None:
            self.agent_start = AgentStart(wanted.instance.name)
            self.workload.agent = self._started_agent(wanted)
            self._shared.order.add(self.agent_start)
        if self._program is None and wanted.program is not None:
            self._program = wanted.program
            shared, serves = self._shared, wanted.instance.serves
            self._group = shared.servers if serves else shared.sources
            ready = self.agent_start.ready
            self.workload.app = self._group.start(wanted.program, may_start=ready)

    def _started_agent(self, wanted: ReplicaPlan) -> Child:
        if (networks := self._shared.networks) is not None:
            networks.open(wanted.instance.position)
        self._agent = wanted.of_agent
        return self._shared.agents.start(wanted.agent, may_start=self.agent_start.may_start)

    async def _stop(self, *, agent: bool, program: bool) -> None:
        """Stop its processes: a program that serves after its agent, which drains before it."""
        workload, instance = self.workload, self.workload.instance
        if program and not agent and instance.serves and not instance.workload.proxyless:
            drain_s = self._shared.mesh.plan.file.drain.total_seconds()
            await until_idle(instance, give_up=self._shared.kill_now, timeout_s=drain_s)
        if program and not instance.serves:
            await self._stop_program()
        if agent:
            await self._shared.agents.stop(workload.agent)
            self.agent_start.ready.set()  # what waits for it no longer does
            self._agent, workload.status, workload.app_answers = None, None, False
        if program and instance.serves:
            await self._stop_program()

    async def _stop_program(self) -> None:
        if self.workload.app is not None:
            await self._group.stop(self.workload.app)
        self._program, self.workload.app, self.workload.app_answers = None, None, False

    async def _leave_service(self) -> None:
        if not self._in_service:
            return
        if self._wanted is None:
            await self._until_successors_are_ready()
        self._in_service = False
        instance = self.workload.instance
        write_replica(self._state.config, instance, in_service=False)
        if instance.serves:
            kill_now = self._shared.kill_now
            await until_out_of_service(self._shared.mesh.plan, instance, give_up=kill_now)

    async def _enter_service(self) -> None:
        """Have others send it requests once it is ready, or when it takes too long for one."""
        if self._in_service:
            return
        await self._until(lambda: self.workload.not_ready is None)
        if not self._changed.is_set():
            self._in_service = True
            write_replica(self._state.config, self.workload.instance)

    async def _until_successors_are_ready(self) -> None:
        """Wait for the replicas that come in this one's place when their number changes."""
        name = self.workload.instance.workload.name
        await self._until(
            lambda: all(
                each.not_ready is None
                for each in self._shared.mesh.workloads
                if each.instance.workload.name == name
            )
        )

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds, or something else is wanted, but no longer than a start takes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_START_S):
                # Others are asked whether it holds.
                while not (holds() or self._is_interrupted):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)

    @property
    def _is_interrupted(self) -> bool:
        return self._changed.is_set() or self._shared.kill_now.is_set()

    async def _wait_changed(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
