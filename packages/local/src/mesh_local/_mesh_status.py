"""The state of a running mesh as one value: what the screens show, and what scripts read as JSON.

It is computed where the mesh runs, and shown there or in another terminal.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from mesh_local._running_mesh import RunningMesh, RunningWorkload, restart_words
from mesh_local.config._edit import Edit
from mesh_local.config._plan import MeshPlan
from mesh_local.config._shapes import Protocol
from mesh_local.processes._children import Child, ChildState
from mesh_local.processes._specs import grpc_bootstrap, names_at

_STARTS_WITHIN = timedelta(seconds=30)
"""A workload that has not been ready yet is starting until then, and trouble afterwards."""


class WorkloadState(StrEnum):
    """The states of a replica."""

    READY = "ready"
    STARTING = "starting"
    WAITING = "waiting"
    """Its agent starts after others."""
    NOT_READY = "not ready"
    """It was ready before, its start takes too long, or something keeps it from it."""
    ENDED = "ended"
    """A process of it has ended."""
    RESTARTING = "restarting"
    """A process of it has ended, and is being started again."""
    LEAVING = "leaving"
    """It is no longer in the mesh file, and stops."""


ARE_TROUBLE = (WorkloadState.NOT_READY, WorkloadState.ENDED, WorkloadState.RESTARTING)
"""The states that count as problems."""


class WorkloadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One replica.

    reason: why it can't be used yet, a sentence. urls: where its program, or a gateway, is reached
    from this machine, as `http://127.64.1.2:8080` or without a scheme. proxy: its Envoy as an HTTP
    proxy. names: where its agent answers DNS. restarts: of its program.
    agent_restarts: of its agent. serial: hexadecimal.
    """

    name: str
    namespace: str
    workload: str
    state: WorkloadState
    reason: str | None = None
    spiffe_id: str
    urls: tuple[str, ...] = ()
    proxy: str | None = None
    names: str | None = None
    bootstrap: str | None = None
    serial: str | None = None
    not_after: datetime | None = None
    xds_connected: bool = False
    xds_error: str | None = None
    envoy: str | None = None
    program: str
    restarts: int = 0
    agent_restarts: int = 0

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.namespace}"


class MeshStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A mesh. Times are aware, paths absolute.

    problems: all that is wrong, also with its rules, one entry each; a further line of an entry
    begins with a space. findings: the lines of these that are about its rules, with file and line.
    control_plane_answers: whether it does; its process may run and be suspended.
    last_edit: the newest edit of the file that was applied, in words, and when.
    """

    name: str
    file: str
    state_dir: str
    mtls: str
    control_plane: str
    control_plane_state: str
    control_plane_answers: bool = True
    workloads: tuple[WorkloadStatus, ...]
    problems: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    last_edit: str | None = None
    last_edit_at: datetime | None = None
    request_to_try: str | None = None

    @property
    def wanted(self) -> tuple[WorkloadStatus, ...]:
        """The replicas that the mesh file has."""
        return tuple(each for each in self.workloads if each.state is not WorkloadState.LEAVING)

    @property
    def ready(self) -> int:
        """The number of replicas that are ready."""
        return sum(each.state is WorkloadState.READY for each in self.workloads)

    @property
    def is_well(self) -> bool:
        """Whether all is ready and as the file says, and its rules have no mistakes."""
        return not self.problems and self.ready == len(self.wanted)


def mesh_status(mesh: RunningMesh, *, now: datetime | None = None) -> MeshStatus:
    """Return the state of a mesh now."""
    plan, now = mesh.plan, now or datetime.now(UTC)
    workloads = tuple(_workload(each, plan, now) for each in (*mesh.workloads, *mesh.leaving))
    edited_at, edit = mesh.edits[-1] if mesh.edits else (None, None)
    return MeshStatus(
        name=plan.file.name,
        file=str(plan.file.path.absolute()),
        state_dir=str(mesh.state.path),
        mtls=str(plan.file.mesh.mtls),
        control_plane=plan.discovery_address,
        control_plane_state=process_words(mesh.control_plane),
        control_plane_answers=_control_plane_answers(mesh),
        workloads=workloads,
        problems=(
            *_control_plane_problems(mesh),
            *_workload_problems(workloads),
            *_configuration_problems(mesh),
            *mesh.file_problems,
            *_whole_findings(mesh.findings),
        ),
        findings=mesh.findings,
        last_edit=None if edit is None else edit_words(edit),
        last_edit_at=edited_at,
        request_to_try=request_to_try(plan),
    )


def _control_plane_answers(mesh: RunningMesh) -> bool:
    return mesh.control_plane_answers and mesh.control_plane.state is ChildState.RUNNING


def _control_plane_problems(mesh: RunningMesh) -> Iterator[str]:
    if not _control_plane_answers(mesh):
        child, sentence = mesh.control_plane, f"no answer from {_control_plane(mesh)}"
        runs = child.state is ChildState.RUNNING
        yield sentence if runs else f"{sentence}: it is {process_words(child)}"


def _control_plane(mesh: RunningMesh) -> str:
    return f"the control plane {mesh.plan.discovery_address}"


def _workload_problems(workloads: Iterable[WorkloadStatus]) -> Iterator[str]:
    for each in workloads:
        if each.reason is not None and each.state in ARE_TROUBLE:
            is_named = each.reason.startswith(each.name)
            yield each.reason if is_named else f"{each.name}: {each.reason}"


def _configuration_problems(mesh: RunningMesh) -> Iterator[str]:
    """Yield what keeps ready proxies from the newest configuration, once with all whom it does.

    That a control plane which is away is not reached is no problem of the workloads.
    """
    found: dict[str, list[str]] = {}
    for each in mesh.workloads:
        agent = each.status
        if agent is None or agent.xds_error is None or each.not_ready is not None:
            continue
        if agent.configuration_refused:
            found.setdefault(agent.xds_error, []).append(each.instance.name)
        elif _control_plane_answers(mesh):
            sentence = f"no connection to {_control_plane(mesh)}: {agent.xds_error}"
            found.setdefault(sentence, []).append(each.instance.name)
    yield from (f"{', '.join(names)}: {error}" for error, names in found.items())


def _whole_findings(lines: Iterable[str]) -> list[str]:
    """Return an entry for each finding: a line that begins with a space is of the one before."""
    whole: list[str] = []
    for line in lines:
        if line.startswith(" ") and whole:
            whole[-1] += f"\n{line}"
        else:
            whole.append(line)
    return whole


def _workload(running: RunningWorkload, plan: MeshPlan, now: datetime) -> WorkloadStatus:
    instance, agent = running.instance, running.status
    workload, addresses = instance.workload, instance.addresses
    has_envoy, is_gateway = not workload.proxyless, workload.gateway is not None
    calls = has_envoy and not is_gateway
    return WorkloadStatus(
        name=instance.name,
        namespace=workload.namespace,
        workload=workload.name,
        state=_state(running, now),
        reason=running.not_ready,
        spiffe_id=instance.spiffe_id,
        urls=tuple(_urls(running)),
        proxy=f"{addresses.outbound}:{port}"
        if calls and (port := plan.file.mesh.http_proxy_port)
        else None,
        names=names_at(plan, instance) if calls and plan.dns_port else None,
        bootstrap=str(grpc_bootstrap(running.agent.spec.directory)) if not has_envoy else None,
        serial=agent.serial if agent else None,
        not_after=agent.not_after if agent else None,
        xds_connected=bool(agent and agent.xds_connected),
        xds_error=agent.xds_error if agent else None,
        envoy=_envoy(running),
        program=_program(running),
        restarts=running.app.restarts if running.app is not None else 0,
        agent_restarts=running.agent.restarts,
    )


def _state(running: RunningWorkload, now: datetime) -> WorkloadState:
    if running.leaving:
        return WorkloadState.LEAVING
    if (ended := running.ended) is not None:
        is_restarting = ended.state is ChildState.RESTARTING
        return WorkloadState.RESTARTING if is_restarting else WorkloadState.ENDED
    if running.not_ready is None:
        return WorkloadState.READY
    if running.agent.state is ChildState.WAITING:
        return WorkloadState.WAITING
    is_new = not running.was_ready and (
        running.begun_at is None or now - running.begun_at < _STARTS_WITHIN
    )
    return WorkloadState.STARTING if is_new and not running.trouble else WorkloadState.NOT_READY


def _urls(running: RunningWorkload) -> Iterator[str]:
    workload = running.instance.workload
    if workload.gateway is not None:
        for number in workload.gateway.ports:
            yield f"http://{workload.gateway.address}:{number}"
    for port in workload.ports:
        scheme = "http://" if port.protocol is Protocol.HTTP else ""
        yield f"{scheme}{running.instance.addresses.app}:{port.port}"


def _envoy(running: RunningWorkload) -> str | None:
    """Return Envoy's state, or the agent's where no agent runs; None where there is no Envoy."""
    if running.agent.state is not ChildState.RUNNING:
        return f"agent {process_words(running.agent)}"
    if running.instance.workload.proxyless:
        return None
    if running.status is None or running.status.envoy_state is None:
        return "starting"
    after = f", agent {restart_words(running.agent)}" if running.agent.restarts else ""
    return f"{running.status.envoy_state}{after}"


def _program(running: RunningWorkload) -> str:
    if running.instance.workload.gateway is not None:
        return "a gateway"
    return "yours to start" if running.app is None else process_words(running.app)


def process_words(child: Child) -> str:
    """Return what a process does, and how it ended before if it did."""
    words = str(child.state)
    if child.state in (ChildState.RESTARTING, ChildState.ENDED) and child.last_exit:
        words += f" after {child.last_exit}"
    if child.restarts:
        words += f", {restart_words(child)}"
    return words


def edit_words(edit: Edit) -> str:
    """Return an edit of the mesh file in words."""
    parts = [
        ("added", edit.added),
        ("removed", edit.removed),
        (
            "restarted",
            tuple(f"{name} ({', '.join(each.fields)})" for name, each in edit.restarted.items()),
        ),
        ("updated", edit.updated),
    ]
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names)


def request_to_try(plan: MeshPlan) -> str | None:
    """Return a command that sends a request from one workload to another, or None."""
    proxy_port = plan.file.mesh.http_proxy_port
    called = next(
        (
            (each, port.port)
            for each in plan.instances
            for port in each.workload.ports
            if port.protocol is Protocol.HTTP
        ),
        None,
    )
    if called is None:
        return None
    callee, port = called
    if not proxy_port and not plan.is_redirected:
        return f"curl http://{callee.addresses.app}:{port}/"
    others = [
        each
        for each in plan.instances
        if each.workload is not callee.workload
        and not each.workload.proxyless
        and each.workload.gateway is None
    ]
    caller = others[0] if others else callee
    name = f"{callee.workload.name}.{callee.workload.namespace}"
    if plan.is_redirected:
        return f"mesh-local exec {caller.name} -- curl http://{name}:{port}/"
    return f"curl -x http://{caller.addresses.outbound}:{proxy_port} http://{name}:{port}/"
