"""The mesh as Istio configuration, which the control plane reads."""

from collections.abc import Iterable, Iterator, Mapping

import yaml

from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._service_names import first_of_service, service_host, service_name
from mesh_local.config._shapes import Workload

ROOT_NAMESPACE = "istio-system"
APP_LABEL = "app"
PROXYLESS_LABEL = "inject.istio.io/templates"
LOCALITY_LABEL = "istio-locality"
GATEWAY_NAME_LABEL = "gateway.networking.k8s.io/gateway-name"
"""By it a Gateway of the Gateway API finds its proxies: the workload has the Gateway's name."""
WORKLOAD_LABEL = "mesh-local/workload"
"""The workload's name: by it a rule is for the proxies of one workload of a service alone."""
OUT_OF_SERVICE = {"mesh-local/out-of-service": "true"}
"""Labels of a replica that gets no requests. By them it is seen that the control plane has read it:
its page of objects has no status."""

Document = Mapping[str, object]


def mesh_config(plan: MeshPlan) -> Document:
    """Return the mesh-wide settings (Istio's MeshConfig)."""
    mesh = plan.file.mesh
    return {
        "trustDomain": mesh.trust_domain,
        "rootNamespace": ROOT_NAMESPACE,
        **({"proxyHttpPort": mesh.http_proxy_port} if mesh.http_proxy_port else {}),
        "defaultConfig": {
            "discoveryAddress": plan.discovery_address,
            "interceptionMode": "REDIRECT" if plan.is_redirected else "NONE",
        },
    }


def mesh_documents(plan: MeshPlan) -> tuple[Document, ...]:
    """Return all documents that follow from the workloads and the mesh settings."""
    workloads = plan.file.workloads
    firsts = [each for each in workloads if first_of_service(workloads, each) is each]
    return (
        *policy_documents(plan),
        *(service_entry(each) for each in firsts if each.ports),
        *(workload_entry(each) for each in plan.instances),
    )


def policy_documents(plan: MeshPlan) -> tuple[Document, ...]:
    """Return the documents that follow from the mesh settings."""
    return (_peer_authentication(plan),)


def instance_labels(instance: Instance) -> dict[str, str]:
    """Return the labels by which services and policies select a replica."""
    workload = instance.workload
    labels = {APP_LABEL: service_name(workload), WORKLOAD_LABEL: workload.name}
    if workload.version:
        labels["version"] = workload.version
    if workload.locality:
        labels[LOCALITY_LABEL] = workload.locality.replace("/", ".")
    if workload.proxyless:
        labels[PROXYLESS_LABEL] = "grpc-agent"
    if workload.gateway is not None:
        labels |= {"istio": "ingressgateway", GATEWAY_NAME_LABEL: workload.name}
    return labels | workload.labels


def to_yaml(documents: Iterable[Document]) -> str:
    """Return the documents as one YAML text."""
    text: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, explicit_start=True, default_flow_style=False
    )
    return text


class _Dumper(yaml.CSafeDumper):
    """Writes equal lists out each time: the control plane's reader bounds aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _peer_authentication(plan: MeshPlan) -> Document:
    return {
        "apiVersion": "security.istio.io/v1",
        "kind": "PeerAuthentication",
        "metadata": {"name": "default", "namespace": ROOT_NAMESPACE},
        "spec": {"mtls": {"mode": str(plan.file.mesh.mtls)}},
    }


def service_entry(workload: Workload) -> Document:
    """Return the service that a workload is an endpoint of, with the workload's ports."""
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": service_name(workload), "namespace": workload.namespace},
        "spec": {
            "hosts": [service_host(workload)],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": list(_ports(workload)),
            "workloadSelector": {"labels": {APP_LABEL: service_name(workload)}},
        },
    }


def _ports(workload: Workload) -> Iterator[Document]:
    for port in workload.ports:
        yield {
            "number": port.port,
            "name": port.name or f"{port.protocol}-{port.port}",
            "protocol": port.protocol.upper(),
        }


def workload_entry(instance: Instance, *, in_service: bool = True) -> Document:
    """Return the endpoint that a replica is; a gateway has one, too.

    By it the control plane knows whose account gets the keys that the Gateway objects name for a
    gateway's labels. in_service: whether others send it requests. One that is not keeps its
    listeners, which it would lose without an entry, and the connections that are open.
    """
    labels = instance_labels(instance)
    entry: dict[str, object] = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "WorkloadEntry",
        "metadata": {"name": instance.name, "namespace": instance.workload.namespace},
        "spec": {
            "address": instance.addresses.inbound,
            "labels": labels if in_service else labels | OUT_OF_SERVICE,
            "serviceAccount": instance.service_account,
            **({"locality": instance.workload.locality} if instance.workload.locality else {}),
        },
    }
    if not in_service:
        entry["metadata"] = {
            "name": instance.name,
            "namespace": instance.workload.namespace,
            "annotations": {"proxy.istio.io/health-checks-enabled": "true"},
        }
        entry["status"] = {"conditions": [{"type": "Healthy", "status": "False"}]}
    return entry
