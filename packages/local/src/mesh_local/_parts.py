"""The parts of a running mesh by their names in commands and tests: `backend.envoy`, ..."""

import difflib
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from mesh_local._errors import FaultError
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.config._plan import Instance
from mesh_local.config._service_names import service_host, service_name
from mesh_local.config._shapes import Protocol, Workload
from mesh_local.processes._children import Child

CONTROL_PLANE = "control-plane"


class Kind(StrEnum):
    """The parts of a workload."""

    PROGRAM = ""
    AGENT = "agent"
    ENVOY = "envoy"


class Part(NamedTuple):
    """A process of a mesh: of a workload, or the control plane, which is of none.

    child: the process itself, or of an Envoy the agent that starts it.
    """

    kind: Kind | None
    workload: RunningWorkload | None
    child: Child


def replicas(mesh: RunningMesh, name: str) -> tuple[RunningWorkload, ...]:
    """Return the replicas of a workload, or the one of this name; raises `FaultError`."""
    found = [each for each in mesh.workloads if name == each.instance.workload.name]
    found = found or [each for each in mesh.workloads if name == each.instance.name]
    if not found:
        raise FaultError(_missing("workload", name, (w.name for w in mesh.plan.file.workloads)))
    return tuple(found)


def parts(mesh: RunningMesh, name: str) -> tuple[Part, ...]:
    """Return the processes of this name, one of each replica; raises `FaultError`."""
    if name == CONTROL_PLANE:
        return (Part(None, None, mesh.control_plane),)
    workload, _, ending = name.rpartition(".") if "." in name else (name, "", "")
    if ending not in set(Kind):
        raise FaultError(
            f'there is no "{name}": write WORKLOAD, WORKLOAD.agent, WORKLOAD.envoy or '
            f"{CONTROL_PLANE}"
        )
    kind = Kind(ending)
    return tuple(_part(each, kind) for each in replicas(mesh, workload))


def _part(workload: RunningWorkload, kind: Kind) -> Part:
    instance = workload.instance
    if kind is Kind.PROGRAM and workload.app is None:
        raise FaultError(f"{instance.name} has no program here: it has no command")
    if kind is Kind.ENVOY:
        refuse_without_envoy(instance)
    child = workload.agent if kind is not Kind.PROGRAM or workload.app is None else workload.app
    return Part(kind, workload, child)


def refuse_without_envoy(instance: Instance) -> None:
    """Raise `FaultError` for a workload that has none."""
    if instance.workload.proxyless:
        raise FaultError(f"{instance.name} is proxyless: it has no Envoy")


def sender(mesh: RunningMesh, name: str) -> tuple[RunningWorkload, ...]:
    """Return the replicas of a workload whose Envoy sends its calls; raises `FaultError`."""
    found = replicas(mesh, name)
    for each in found:
        refuse_without_envoy(each.instance)
        if each.instance.workload.gateway is not None:
            raise FaultError(f"{name} is a gateway: it has no program that calls others")
    return found


class Called(NamedTuple):
    """A service that others call, and the replicas behind it."""

    host: str
    http_ports: tuple[int, ...]
    replicas: tuple[Instance, ...]


def called(mesh: RunningMesh, name: str) -> Called:
    """Return the service of this name, or of the workload of this name; raises `FaultError`."""
    serving = [each for each in mesh.plan.file.workloads if each.ports]
    found = [each for each in serving if service_name(each) == name]
    if not found:
        found = [each for each in serving if each.name == name]
        beside = [
            each for each in serving if found and service_host(each) == service_host(found[0])
        ]
        if len(beside) > 1:
            raise FaultError(
                f"{name} is one of {len(beside)} workloads of the service "
                f"{service_name(found[0])}, which others call: name the service"
            )
    if not found:
        raise FaultError(_missing("workload with a port", name, (each.name for each in serving)))
    hosts = sorted({service_host(each) for each in found})
    if len(hosts) > 1:
        raise FaultError(f"there are several services {name}: {', '.join(hosts)}")
    return Called(
        host=hosts[0],
        http_ports=_http_ports(found[0]),
        replicas=tuple(i for i in mesh.plan.instances if i.workload in found),
    )


def _http_ports(workload: Workload) -> tuple[int, ...]:
    spoken = (Protocol.HTTP, Protocol.HTTP2, Protocol.GRPC)
    return tuple(each.port for each in workload.ports if each.protocol in spoken)


def _missing(sort: str, name: str, names: Iterable[str]) -> str:
    known = sorted(set(names))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"there are {', '.join(known) or 'none'}"
    return f'there is no {sort} "{name}"; {hint}'
