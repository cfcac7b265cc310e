"""A mesh while it runs: its processes, and the last look at each workload."""

import asyncio
from dataclasses import dataclass, field

from mesh_local._errors import NotReady
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.observation._agent_status import AgentStatus
from mesh_local.processes._children import Child, ChildState, last_lines
from mesh_local.state._folder import StateFolder


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
    findings: tuple[str, ...] = ()
    """What the control plane last said of its configuration: wrong, not reached, without effect."""
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
