"""A running mesh as a table for people: one line a workload, each fact in the agent's own words."""

from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mesh_local._children import Child, ChildState
from mesh_local._duration_text import brief
from mesh_local._running import RunningMesh, RunningWorkload
from mesh_local._status import AgentStatus

_SERIAL_DIGITS = 8


def mesh_view(mesh: RunningMesh, now: datetime) -> RenderableType:
    """Everything that `mesh-local up` shows; `now` is aware."""
    table = Table(
        title=f"mesh {mesh.plan.file.name}", title_justify="left", box=box.SIMPLE_HEAD, expand=False
    )
    # Two lines a workload, so that the whole identity fits into a narrow terminal.
    for heading in ("workload and identity", "certificate", "xDS", "Envoy", "program"):
        table.add_column(heading, overflow="fold")
    for workload in mesh.workloads:
        table.add_row(
            f"{workload.instance.full_name}\n{workload.instance.spiffe_id}",
            certificate_cell(workload.status, now),
            control_plane_cell(workload.status),
            envoy_cell(workload),
            program_cell(workload),
        )
    lines = [f"control plane  {mesh.plan.discovery_address}  {_process(mesh.control_plane)}"]
    lines += [
        f"{each.instance.name} is not ready: {reason}"
        for each in mesh.workloads
        if (reason := each.not_ready) is not None
    ]
    lines.append(f"state and logs {mesh.state.path}")
    lines.append("Ctrl-C stops everything")
    return Group(table, Text("\n".join(lines)))


def certificate_cell(status: AgentStatus | None, now: datetime) -> str:
    """The serial's beginning and the time left."""
    if status is None or status.serial is None or status.not_after is None:
        return "none yet"
    left = brief(status.not_after - now)
    ending = left if left == "expired" else f"expires in {left}"
    return f"{status.serial[:_SERIAL_DIGITS]}…\n{ending}"


def control_plane_cell(status: AgentStatus | None) -> str:
    """Whether configuration flows, and what is wrong with it if something is."""
    if status is None:
        return "unknown"
    connected = "connected" if status.xds_connected else "not connected"
    return f"{connected}\n{status.xds_error}" if status.xds_error else connected


def envoy_cell(workload: RunningWorkload) -> str:
    """Envoy's state, or its agent's when that does not run."""
    if workload.agent.state is not ChildState.RUNNING:
        return f"agent {_process(workload.agent)}"
    if workload.status is None or workload.status.envoy_state is None:
        return "starting"
    if not workload.status.ready:
        return f"{workload.status.envoy_state}, not ready"
    return workload.status.envoy_state


def program_cell(workload: RunningWorkload) -> str:
    """The state of the workload's own program and where to find it."""
    instance = workload.instance
    places = "\n".join(
        f"http://{instance.addresses.app}:{port.port}"
        if port.protocol == "http"
        else f"{instance.addresses.app}:{port.port}"
        for port in instance.workload.ports
    )
    state = "yours to start" if workload.app is None else _process(workload.app)
    return f"{state}\n{places}".strip()


def _process(child: Child) -> str:
    words = str(child.state)
    if child.state in (ChildState.RESTARTING, ChildState.ENDED) and child.last_exit:
        words += f" after {child.last_exit}"
    if child.restarts:
        words += f" (started again {child.restarts} times)"
    return words
