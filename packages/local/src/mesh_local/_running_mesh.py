"""A mesh while it runs: its processes, and the newest status of each workload."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mesh_local._duration_text import milliseconds
from mesh_local._errors import NotReady
from mesh_local.config._edit import Edit
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.observation._agent_status import AgentStatus
from mesh_local.processes._children import Child, ChildState, last_lines
from mesh_local.state._folder import StateFolder

_KEPT_EDITS = 20


@dataclass(slots=True, kw_only=True)
class RunningWorkload:
    """One replica while it runs.

    status: the newest status of its agent; None while the agent does not answer.
    app_answers: whether its program accepts connections on all of its ports.
    leaving: it is no longer in the mesh file, and stops.
    begun_at: when its agent was last started by the mesh; None before.
    was_ready: whether it has been ready since then.
    trouble: why it is not yet as the mesh file wants it, if something keeps it from it.
    """

    instance: Instance
    agent: Child
    app: Child | None
    status: AgentStatus | None = None
    app_answers: bool = False
    leaving: bool = False
    begun_at: datetime | None = None
    was_ready: bool = False
    trouble: str | None = None

    @property
    def ended(self) -> Child | None:
        """A process of the workload that ended, whether it is started again or not."""
        children = (each for each in (self.agent, self.app) if each is not None)
        ended = [
            each for each in children if each.state in (ChildState.ENDED, ChildState.RESTARTING)
        ]
        return min(ended, key=lambda each: each.is_stopped, default=None)

    @property
    def ended_by_itself(self) -> Child | None:
        """As `ended`, of those that were not asked to end.

        When one process fails the mesh, the others are asked to end before the failure is raised.
        """
        ended = self.ended
        return None if ended is None or ended.is_stopped else ended

    @property
    def ended_for_good(self) -> bool:
        """Whether one of its processes ended by itself and is not started again."""
        ended = self.ended_by_itself
        return ended is not None and ended.state is ChildState.ENDED

    @property
    def not_ready(self) -> str | None:
        """Why the workload can't be used yet; None if it can."""
        if (ended := self.ended) is not None:
            return _end_words(ended, _next_start(ended))
        if self.trouble is not None or self.agent.state is ChildState.WAITING:
            return self.trouble or "its agent starts after others"
        if self.status is None:
            return f"its agent does not answer (see {self.agent.spec.log.name})"
        if not self.status.ready:
            return "; ".join(self.status.reasons) or "its agent is not ready"
        if not self.app_answers:
            wanted = ", ".join(str(port.port) for port in self.instance.workload.ports)
            return f"its program does not listen on {self.instance.addresses.app} port {wanted}"
        return None

    @property
    def failed_process(self) -> Child:
        """The process in whose log the reason is, if the workload is not ready."""
        agent_is_well = self.status is not None and self.status.ready
        return self.ended or (self.app if agent_is_well and self.app is not None else self.agent)


def _end_words(child: Child, next_start: str = "") -> str:
    said = "".join(last_lines(child.spec.log, 1))
    ended = f"{child.spec.name} ended ({child.last_exit}){next_start}"
    return f"{ended}: {said}" if said else ended


def _next_start(child: Child) -> str:
    if child.state is not ChildState.RESTARTING:
        return ""
    wait_s = child.starts_after_s
    after = "" if wait_s is None else f" after {milliseconds(wait_s)}"
    return f" and is started again{after}, {restart_words(child)}"


def restart_words(child: Child) -> str:
    """Return how often a process was started again."""
    return "1 restart" if child.restarts == 1 else f"{child.restarts} restarts"


@dataclass(slots=True, kw_only=True)
class RunningMesh:
    """A mesh while it runs."""

    plan: MeshPlan
    state: StateFolder
    control_plane: Child
    workloads: tuple[RunningWorkload, ...]
    control_plane_answers: bool = True
    """Whether it answered when it was last asked: its process may run and be suspended."""
    leaving: tuple[RunningWorkload, ...] = ()
    """Replicas that are no longer in the mesh file, and stop."""
    file_problems: tuple[str, ...] = ()
    """Why the mesh is not as its file says now, a sentence each, while the file is followed."""
    edits: tuple[tuple[datetime, Edit], ...] = ()
    """The newest edits of the file that were applied, and when; oldest first."""
    findings: tuple[str, ...] = ()
    """The control plane's newest findings: configuration that is wrong, unreachable, unused."""
    _updated: asyncio.Event = field(default_factory=asyncio.Event)

    def workload(self, name: str) -> RunningWorkload:
        """Return the replica with this name, or the first of the workload with this name."""
        for each in self.workloads:
            if name in (each.instance.name, each.instance.workload.name):
                return each
        raise KeyError(name)

    def note_edit(self, edit: Edit) -> None:
        """Keep an edit that was applied."""
        self.edits = (*self.edits, (datetime.now(UTC), edit))[-_KEPT_EDITS:]

    def workload_updated(self) -> None:
        """Wake `wait_ready`: a workload's status may have changed."""
        self._updated.set()

    @property
    def children(self) -> tuple[Child, ...]:
        every = (*self.workloads, *self.leaving)
        apps = (each.app for each in every if each.app is not None)
        return (self.control_plane, *(each.agent for each in every), *apps)

    async def wait_ready(self, timeout_s: float, *, or_any_ended: bool = False) -> None:
        """Wait until every workload can be used; raises `NotReady` naming the first that can't.

        or_any_ended: do not wait for a process that has ended by itself to be started again.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                while any(each.not_ready for each in self.workloads):
                    if any(each.ended_for_good for each in self.workloads):
                        break  # waiting would change nothing
                    if or_any_ended and any(each.ended_by_itself for each in self.workloads):
                        break
                    self._updated.clear()
                    await self._updated.wait()
        except TimeoutError:
            pass
        for each in sorted(self.workloads, key=lambda each: each.ended_by_itself is None):
            if (reason := each.not_ready) is not None:
                if (ended := each.ended) is not None:
                    reason = _end_words(ended)  # its next start is no longer waited for
                raise NotReady(
                    f"workload {each.instance.full_name} is not ready after "
                    f"{loop.time() - started:.0f} s: {reason}",
                    log=each.failed_process.spec.log,
                )
