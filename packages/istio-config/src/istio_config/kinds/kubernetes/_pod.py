"""Kubernetes' Pod: a workload, with its labels, its account, its address and its node.

Source: Kubernetes' API, v1.
"""

from collections.abc import Iterator

import msgspec

from istio_config.kinds.fields import PortNumber
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields
from istio_config.kinds.kubernetes._service import TransportProtocol
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding
from mesh_identity import InvalidSpiffeId, checked_segment


class ContainerPort(KubernetesFields, frozen=True):
    """A port of a container, which services may name."""

    container_port: PortNumber
    name: str = ""
    protocol: TransportProtocol = TransportProtocol.TCP


class Container(KubernetesFields, frozen=True):
    """A container of a pod."""

    name: str = ""
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None


class PodSpec(KubernetesFields, frozen=True):
    """The spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    service_account_name: str = ""
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False

    def port_named(self, name: str, protocol: TransportProtocol) -> int | None:
        """Return the number of a container's port by its name."""
        beside = (each for each in self.init_containers or () if each.restart_policy == "Always")
        for container in (*self.containers, *beside):
            for port in container.ports or ():
                if port.name == name and port.protocol is protocol:
                    return port.container_port
        return None


class PodIp(KubernetesFields, frozen=True):
    """One of a pod's addresses."""

    ip: str = ""


class PodCondition(KubernetesFields, frozen=True):
    """A condition of a pod, such as Ready."""

    type: str = ""
    status: str = ""


class PodStatus(KubernetesFields, frozen=True):
    """The status of a pod."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIp, ...] | None = msgspec.field(default=None, name="podIPs")
    conditions: tuple[PodCondition, ...] | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """The pod's addresses, the first family first."""
        given = (self.pod_ip, *(each.ip for each in self.pod_ips or ()))
        return tuple(dict.fromkeys(each for each in given if each))

    @property
    def is_over(self) -> bool:
        """Whether the pod runs no more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """Whether the pod runs and is ready; without phase and conditions it counts as ready."""
        if not self.phase and self.conditions is None:
            return True
        return self.phase == "Running" and any(
            each.type == "Ready" and each.status == "True" for each in self.conditions or ()
        )


def _mistakes(spec: PodSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.service_account_name:
        try:
            checked_segment(spec.service_account_name, what="service account")
        except InvalidSpiffeId as error:
            yield ("serviceAccountName",), str(error)


POD = Kind(
    name="Pod", group="", versions=("v1",), spec=PodSpec, status=PodStatus, validate=_mistakes
)
