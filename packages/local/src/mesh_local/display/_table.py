"""The table of a running mesh: one row a workload, in the words of its agent's status.

Addresses, reasons and commands, which don't fit into columns, are listed below it.
"""

from collections.abc import Iterator
from datetime import datetime

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._shapes import Protocol
from mesh_local.display._duration_text import brief
from mesh_local.observation._agent_status import AgentStatus
from mesh_local.processes._children import Child, ChildState
from mesh_local.processes._specs import grpc_bootstrap

_SERIAL_DIGITS = 8
_MOST_FINDINGS = 8
_DNS_PORT = 53


def mesh_view(mesh: RunningMesh, now: datetime) -> RenderableType:
    """Returns everything that `mesh-local up` shows; `now` is aware.

    Texts that people copy are on lines of their own, so that no column breaks them.
    """
    table = Table(
        title=f"mesh {mesh.plan.file.name}", title_justify="left", box=box.SIMPLE_HEAD, expand=False
    )
    for heading in ("workload", "certificate", "xDS", "Envoy", "program"):
        table.add_column(heading, overflow="fold")
    for workload in mesh.workloads:
        table.add_row(
            workload.instance.full_name,
            certificate_cell(workload.status, now),
            control_plane_cell(workload.status),
            envoy_cell(workload),
            program_cell(workload),
        )
    parts = [
        "\n".join(
            line for each in mesh.workloads for line in place_lines(each, mesh.plan.dns_port)
        ),
        "\n".join(_state_lines(mesh)),
    ]
    if (command := request_to_try(mesh.plan)) is not None:
        parts.append(f"try a request:\n  {command}")
    parts.append("Ctrl-C stops everything")
    return Group(table, Text("\n\n".join(parts)))


def place_lines(workload: RunningWorkload, dns_port: int | None) -> Iterator[str]:
    """The lines about a workload: its identity, where its program listens, where its names are."""
    instance = workload.instance
    yield f"{instance.full_name} is {instance.spiffe_id}"
    for port in instance.workload.ports:
        scheme = "http://" if port.protocol is Protocol.HTTP else ""
        yield f"  its program: {scheme}{instance.addresses.app}:{port.port}"
    gateway = instance.workload.gateway
    if gateway is not None:
        for number in gateway.ports:
            yield f"  from outside: {gateway.address} port {number}"
    elif instance.workload.proxyless:
        yield f"  its bootstrap: GRPC_XDS_BOOTSTRAP={grpc_bootstrap(workload.agent.spec.directory)}"
    elif dns_port is not None:
        yield f"  its names: {dns_command(instance, dns_port)} NAME"


def dns_command(instance: Instance, port: int) -> str:
    """Returns the command that asks a workload's agent for a name."""
    option = "" if port == _DNS_PORT else f" -p {port}"
    return f"dig +short @{instance.addresses.inbound}{option}"


def _state_lines(mesh: RunningMesh) -> Iterator[str]:
    yield f"control plane  {mesh.plan.discovery_address}  {_process(mesh.control_plane)}"
    for each in mesh.workloads:
        if (reason := each.not_ready) is not None:
            yield f"{each.instance.name} is not ready: {reason}"
    shown = mesh.findings[:_MOST_FINDINGS]
    yield from (f"configuration: {each.strip()}" for each in shown)
    if len(mesh.findings) > len(shown):
        yield f"configuration: {len(mesh.findings) - len(shown)} more, see mesh-discovery status"
    yield f"state and logs {mesh.state.path}"


def request_to_try(plan: MeshPlan) -> str | None:
    """Returns a command that sends a request from one workload to another, or None."""
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
    if not proxy_port:
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
    return f"curl -x http://{caller.addresses.outbound}:{proxy_port} http://{name}:{port}/"


def certificate_cell(status: AgentStatus | None, now: datetime) -> str:
    """Returns the serial's beginning and the time left."""
    if status is None or status.serial is None or status.not_after is None:
        return "none yet"
    left = brief(status.not_after - now)
    ending = left if left == "expired" else f"expires in {left}"
    return f"{status.serial[:_SERIAL_DIGITS]}…\n{ending}"


def control_plane_cell(status: AgentStatus | None) -> str:
    """Returns whether the agent is connected to the control plane, and its error if any."""
    if status is None:
        return "unknown"
    connected = "connected" if status.xds_connected else "not connected"
    return f"{connected}\n{status.xds_error}" if status.xds_error else connected


def envoy_cell(workload: RunningWorkload) -> str:
    """Returns Envoy's state, or the agent's if the agent does not run."""
    if workload.agent.state is not ChildState.RUNNING:
        return f"agent {_process(workload.agent)}"
    if workload.instance.workload.proxyless:
        ready = workload.status is not None and workload.status.ready
        return "none; agent ready" if ready else "none; agent not ready"
    if workload.status is None or workload.status.envoy_state is None:
        return "starting"
    if not workload.status.ready:
        return f"{workload.status.envoy_state}, not ready"
    return workload.status.envoy_state


def program_cell(workload: RunningWorkload) -> str:
    """Returns the state of the workload's own program."""
    if workload.instance.workload.gateway is not None:
        return "none; a gateway"
    return "yours to start" if workload.app is None else _process(workload.app)


def _process(child: Child) -> str:
    words = str(child.state)
    if child.state in (ChildState.RESTARTING, ChildState.ENDED) and child.last_exit:
        words += f" after {child.last_exit}"
    if child.restarts:
        words += f" (started again {child.restarts} times)"
    return words
