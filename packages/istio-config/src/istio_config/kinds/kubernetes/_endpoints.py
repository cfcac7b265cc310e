"""Kubernetes' Endpoints: the endpoints of the service of the same name, where there is no slice.

Source: Kubernetes' API, v1.
"""

from collections.abc import Iterator

from istio_config.kinds.fields import Text
from istio_config.kinds.kind import Body, Kind
from istio_config.kinds.kubernetes._endpoint_slice import (
    EndpointPort,
    TargetReference,
    port_warnings,
)
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields, wrong_address
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding


class EndpointAddress(KubernetesFields, frozen=True):
    """An address, and the pod that has it."""

    ip: Text
    hostname: str | None = None
    node_name: str | None = None
    target_ref: TargetReference | None = None


class Subset(KubernetesFields, frozen=True):
    """Addresses that all have the same ports."""

    addresses: tuple[EndpointAddress, ...] | None = None
    not_ready_addresses: tuple[EndpointAddress, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class EndpointsFields(KubernetesFields, frozen=True):
    """The fields of Endpoints."""

    subsets: tuple[Subset, ...] | None = None


def _validate(spec: EndpointsFields, _metadata: Metadata) -> Iterator[Finding]:
    for index, subset in enumerate(spec.subsets or ()):
        found = {"addresses": subset.addresses, "notReadyAddresses": subset.not_ready_addresses}
        for field, addresses in found.items():
            for at, address in enumerate(addresses or ()):
                if wrong := wrong_address(address.ip):
                    yield ("subsets", index, field, at, "ip"), wrong


def _warn(spec: EndpointsFields, _metadata: Metadata) -> Iterator[Finding]:
    for index, subset in enumerate(spec.subsets or ()):
        yield from port_warnings(subset.ports or (), ("subsets", index, "ports"))


ENDPOINTS = Kind(
    name="Endpoints",
    group="",
    versions=("v1",),
    spec=EndpointsFields,
    body=Body.DOCUMENT,
    validate=_validate,
    warn=_warn,
)
