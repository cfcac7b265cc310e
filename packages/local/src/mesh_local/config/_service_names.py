"""The names that follow from a workload: its replicas', and its service's."""

from collections.abc import Iterable

from mesh_local.config._shapes import Workload


def instance_names(workload: Workload) -> tuple[str, ...]:
    """Return a name for each replica: the workload's own if there is only one."""
    if workload.replicas == 1:
        return (workload.name,)
    return tuple(f"{workload.name}-{number}" for number in range(1, workload.replicas + 1))


def service_name(workload: Workload) -> str:
    """Return the name of the workload's service, in its namespace."""
    return workload.service or workload.name


def first_of_service(workloads: Iterable[Workload], workload: Workload) -> Workload:
    """Return the first workload of the service that a workload is of."""
    return next(
        each
        for each in workloads
        if (
            each.namespace == workload.namespace
            and service_name(each) == service_name(workload)
            and each.ports
        )
        or each is workload
    )


def service_host(workload: Workload) -> str:
    """Return the full host name of the workload's service."""
    return f"{service_name(workload)}.{workload.namespace}.svc.cluster.local"


def service_names(workload: Workload) -> tuple[str, ...]:
    """Return every name by which other workloads may call the service."""
    name, namespace = service_name(workload), workload.namespace
    return (name, f"{name}.{namespace}", f"{name}.{namespace}.svc", service_host(workload))
