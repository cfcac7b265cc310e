"""Builds endpoints of workloads: WorkloadEntries, those in ServiceEntries, and pods."""

from collections.abc import Mapping, Sequence

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import PodSpec, PodStatus
from istio_config.kinds.workload_entry import WorkloadEntrySpec, WorkloadEntryStatus
from mesh_model._networks import NETWORK_LABEL
from mesh_model._services import Endpoint, Health
from mesh_model.workloads._service_settings import ServiceSettings, label_locality
from mesh_model.workloads._workloads import labels_of

WORKLOAD_NAME_LABEL = "service.istio.io/workload-name"
HEALTH_CHECKED = "proxy.istio.io/health-checks-enabled"
"""The annotation of a WorkloadEntry whose agent reports the health of its application."""
HEALTHY = "Healthy"
"""The condition in the status of such a WorkloadEntry."""
_TEMPLATES = "inject.istio.io/templates"
_POD_HASH = "pod-template-hash"


def entry_endpoint(
    entry: WorkloadEntrySpec,
    namespace: str,
    settings: ServiceSettings,
    *,
    workload: str,
    cluster: str = "",
    labels: Mapping[str, str] | None = None,
    health: Health = Health.HEALTHY,
) -> Endpoint:
    """Build the endpoint of a workload that an entry describes."""
    own = entry.labels if labels is None else labels
    reported = settings.reports.get((namespace, entry.service_account, entry.address))
    if reported is not None:
        health = Health.HEALTHY if reported else Health.UNHEALTHY
    return Endpoint(
        address=entry.address,
        ports=tuple(sorted(entry.ports.items())),
        namespace=namespace,
        cluster=cluster,
        labels=tuple(sorted(own.items())),
        network=settings.networks.network_of(
            entry.address, own.get(NETWORK_LABEL) or entry.network
        ),
        locality=entry.locality or label_locality(own),
        weight=entry.weight,
        service_account=entry.service_account,
        workload=own.get(WORKLOAD_NAME_LABEL) or workload,
        health=health,
    )


def workload_endpoint(item: ConfigObject, settings: ServiceSettings) -> Endpoint | None:
    """Build the endpoint of a WorkloadEntry; None if proxies have no address to reach it at."""
    entry = item.spec
    if not isinstance(entry, WorkloadEntrySpec):
        return None
    endpoint = entry_endpoint(
        entry,
        item.namespace,
        settings,
        workload=item.name,
        cluster=item.origin.cluster,
        labels=labels_of(item),
        health=entry_health(item),
    )
    return endpoint if is_reached(endpoint, settings) else None


def is_reached(endpoint: Endpoint, settings: ServiceSettings) -> bool:
    """Return whether it can be reached: by its address, or by gateways into its network."""
    return bool(endpoint.address or settings.networks.gateways_of(endpoint.network))


def entry_health(item: ConfigObject) -> Health:
    """Return the health of a WorkloadEntry: unknown counts as unhealthy where it is checked."""
    checked = dict(item.annotations).get(HEALTH_CHECKED, "")
    if checked.lower() not in ("true", "1", "t"):
        return Health.HEALTHY
    conditions = item.status.conditions if isinstance(item.status, WorkloadEntryStatus) else ()
    healthy = any(
        each.type == HEALTHY and each.status.lower() == "true" for each in conditions or ()
    )
    return Health.HEALTHY if healthy else Health.UNHEALTHY


def pod_endpoint(
    pod: ConfigObject,
    address: str,
    settings: ServiceSettings,
    *,
    ports: Sequence[tuple[str, int]] = (),
    health: Health = Health.HEALTHY,
) -> Endpoint:
    """Build the endpoint of a pod."""
    spec = pod.spec if isinstance(pod.spec, PodSpec) else PodSpec()
    labels = dict(pod.labels)
    return Endpoint(
        address=address,
        ports=tuple(ports),
        has_named_ports_only=bool(ports),
        namespace=pod.namespace,
        labels=pod.labels,
        cluster=pod.origin.cluster,
        network=settings.network_of_pod(
            address, labels.get(NETWORK_LABEL, ""), cluster=pod.origin.cluster
        ),
        locality=label_locality(labels)
        or settings.localities.get((pod.origin.cluster, spec.node_name), ""),
        service_account=spec.service_account_name or "default",
        workload=_workload_name(pod, labels),
        health=health,
        node=spec.node_name,
        hostname=spec.hostname,
        is_pod=True,
        is_grpc_program=_is_grpc_program(pod),
    )


def pod_health(pod: ConfigObject) -> Health | None:
    """Return the health of a pod; None when it serves nothing, as it is over or not started."""
    status = pod.status
    if not isinstance(status, PodStatus) or status.is_over or not status.addresses:
        return None
    if pod.is_ending:
        return Health.TERMINATING
    return Health.HEALTHY if status.is_ready else Health.UNHEALTHY


def same_pod(one: ConfigObject, other: ConfigObject) -> bool:
    """Return whether two versions of a pod are equal in all that the model reads of pods.

    Whatever the model or `envoy_config` reads of a pod has to be compared here, or an edit of it is
    lost. Kubelets write the rest (heartbeats, restart counts) all the time.
    """
    return (
        one.key == other.key
        and one.spec == other.spec
        and one.labels == other.labels
        and one.created == other.created
        and pod_health(one) is pod_health(other)
        and _addresses(one) == _addresses(other)
        and _is_grpc_program(one) == _is_grpc_program(other)
    )


def _addresses(pod: ConfigObject) -> tuple[str, ...]:
    return pod.status.addresses if isinstance(pod.status, PodStatus) else ()


def _is_grpc_program(pod: ConfigObject) -> bool:
    return dict(pod.annotations).get(_TEMPLATES) == "grpc-agent"


def _workload_name(pod: ConfigObject, labels: Mapping[str, str]) -> str:
    """Return the name of the deployment, as far as the pod shows it, else the pod's own."""
    if name := labels.get(WORKLOAD_NAME_LABEL):
        return name
    digest = labels.get(_POD_HASH)
    return pod.name.partition(f"-{digest}-")[0] if digest else pod.name
