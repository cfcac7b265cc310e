"""Why a name leads nowhere: the mesh file has no such service, or the service has other ports."""

import difflib

from mesh_local.config._plan import MeshPlan
from mesh_local.config._service_names import service_name, service_names
from mesh_local.config._shapes import Workload

UNREACHED = 503
"""What Envoy answers for a name that it does not resolve, and for a port without endpoints."""


def missing_service(plan: MeshPlan, namespace: str, host: str, port: int) -> str | None:
    """Return a sentence if the mesh file has nothing at this name and port, else None.

    namespace: the caller's, in which short names are found. None also for names outside the mesh.
    """
    serving = [each for each in plan.file.workloads if each.ports]
    found = [each for each in serving if host in _names_from(namespace, each)]
    if found:
        ports = sorted({served.port for each in found for served in each.ports})
        sort = "port" if len(ports) == 1 else "ports"
        shown = f"{service_name(found[0])}.{found[0].namespace}"
        return None if port in ports else f"{shown} has the {sort} {', '.join(map(str, ports))}"
    name, _, rest = host.partition(".")
    within = rest.removesuffix(".cluster.local").removesuffix(".svc") if rest else namespace
    namespaces = {each.namespace for each in plan.file.workloads}
    if within not in namespaces and name not in map(service_name, serving):
        return None
    hint = _hint(name, within, serving)
    return f'the mesh file has no service "{name}" in namespace {within}; {hint}'


def _names_from(namespace: str, workload: Workload) -> tuple[str, ...]:
    short, *full = service_names(workload)
    return (short, *full) if workload.namespace == namespace else tuple(full)


def _hint(name: str, namespace: str, serving: list[Workload]) -> str:
    elsewhere = [each for each in serving if service_name(each) == name]
    if elsewhere:
        return f"did you mean {name}.{elsewhere[0].namespace}?"
    beside = sorted({service_name(each) for each in serving if each.namespace == namespace})
    if close := difflib.get_close_matches(name, beside, n=1):
        return f"did you mean {close[0]}.{namespace}?"
    return f"there are {', '.join(beside) or 'none'}"
