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

Document = Mapping[str, object]


def mesh_config(plan: MeshPlan) -> Document:
    """Returns the mesh-wide settings (Istio's MeshConfig)."""
    mesh = plan.file.mesh
    return {
        "trustDomain": mesh.trust_domain,
        "rootNamespace": ROOT_NAMESPACE,
        **({"proxyHttpPort": mesh.http_proxy_port} if mesh.http_proxy_port else {}),
        "defaultConfig": {
            "discoveryAddress": plan.discovery_address,
            "interceptionMode": "NONE",
        },
    }


def mesh_documents(plan: MeshPlan) -> tuple[Document, ...]:
    """Returns all documents that follow from the workloads and the mesh settings."""
    return (
        *policy_documents(plan),
        *(
            document
            for workload in plan.file.workloads
            for document in workload_documents(plan, workload)
        ),
    )


def policy_documents(plan: MeshPlan) -> tuple[Document, ...]:
    """Returns the documents that follow from the mesh settings."""
    return (_peer_authentication(plan),)


def workload_documents(plan: MeshPlan, workload: Workload) -> tuple[Document, ...]:
    """Returns the documents of one workload: its replicas, and its service with the first of it.

    A gateway has a WorkloadEntry too: by it the control plane knows whose account gets the keys
    that the Gateway objects name for its labels.
    """
    is_first = first_of_service(plan.file.workloads, workload) is workload
    return (
        *([_service_entry(workload)] if workload.ports and is_first else []),
        *(_workload_entry(each) for each in plan.instances_of(workload.name)),
    )


def instance_labels(instance: Instance) -> dict[str, str]:
    """Returns the labels by which services and policies select a replica."""
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
    """Returns the documents as one YAML text."""
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


def _service_entry(workload: Workload) -> Document:
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


def _workload_entry(instance: Instance) -> Document:
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "WorkloadEntry",
        "metadata": {"name": instance.name, "namespace": instance.workload.namespace},
        "spec": {
            "address": instance.addresses.inbound,
            "labels": instance_labels(instance),
            "serviceAccount": instance.service_account,
            **({"locality": instance.workload.locality} if instance.workload.locality else {}),
        },
    }
