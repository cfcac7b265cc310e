"""Kubernetes' EndpointSlice and Endpoints: the endpoints of a service.

A slice names its service by a label and has some of its endpoints. Endpoints are those of the
service of the same name, and count where there is no slice.

Source: Kubernetes' API, discovery.k8s.io/v1 and v1.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from istio_config.addresses import is_host
from istio_config.kinds.fields import PortNumber, Text
from istio_config.kinds.kind import Body, Kind
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields, wrong_address
from istio_config.kinds.kubernetes._service import TransportProtocol
from istio_config.kinds.metadata import Metadata
from istio_config.proxy_ports import proxy_port_warning
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
"""Names the service of a slice."""


class AddressType(StrEnum):
    """The form of the addresses of a slice."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"
    FQDN = "FQDN"


class TargetReference(KubernetesFields, frozen=True):
    """The object behind an endpoint, such as a Pod."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Conditions(KubernetesFields, frozen=True):
    """The state of an endpoint; None is unknown, which counts as ready, as Kubernetes says."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class SliceEndpoint(KubernetesFields, frozen=True):
    """One endpoint of a slice."""

    addresses: tuple[str, ...] = ()
    conditions: Conditions | None = None
    hostname: str | None = None
    node_name: str | None = None
    zone: str | None = None
    target_ref: TargetReference | None = None


class EndpointPort(KubernetesFields, frozen=True):
    """A port of all endpoints of the slice; `name` is that of the service's port."""

    port: PortNumber | None = None
    name: str | None = None
    protocol: TransportProtocol = TransportProtocol.TCP


class EndpointSliceFields(KubernetesFields, frozen=True):
    """The fields of a slice."""

    address_type: AddressType = AddressType.IPV4
    endpoints: tuple[SliceEndpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


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


def _slice_mistakes(spec: EndpointSliceFields, _metadata: Metadata) -> Iterator[Finding]:
    for index, endpoint in enumerate(spec.endpoints or ()):
        for at, address in enumerate(endpoint.addresses):
            path = ("endpoints", index, "addresses", at)
            if spec.address_type is AddressType.FQDN:
                if not is_host(address):
                    yield path, f'"{address}" is not a host name, as addressType FQDN says'
            elif wrong := wrong_address(address):
                yield path, wrong


def _slice_warnings(spec: EndpointSliceFields, metadata: Metadata) -> Iterator[Finding]:
    yield from _port_warnings(spec.ports or (), ("ports",))
    if spec.address_type is AddressType.FQDN and spec.endpoints:
        yield (
            ("addressType",),
            (
                "FQDN has no effect: proxies are sent IP addresses; use a ServiceEntry of "
                "resolution DNS"
            ),
        )
    if not metadata.labels.get(SERVICE_NAME_LABEL):
        yield (
            ("metadata", "labels"),
            f"{SERVICE_NAME_LABEL} is missing: the endpoints belong to no service",
        )


ENDPOINT_SLICE = Kind(
    name="EndpointSlice",
    group="discovery.k8s.io",
    versions=("v1", "v1beta1"),
    spec=EndpointSliceFields,
    body=Body.DOCUMENT,
    validate=_slice_mistakes,
    warn=_slice_warnings,
)


def _endpoints_mistakes(spec: EndpointsFields, _metadata: Metadata) -> Iterator[Finding]:
    for index, subset in enumerate(spec.subsets or ()):
        found = {"addresses": subset.addresses, "notReadyAddresses": subset.not_ready_addresses}
        for field, addresses in found.items():
            for at, address in enumerate(addresses or ()):
                if wrong := wrong_address(address.ip):
                    yield ("subsets", index, field, at, "ip"), wrong


def _endpoints_warnings(spec: EndpointsFields, _metadata: Metadata) -> Iterator[Finding]:
    for index, subset in enumerate(spec.subsets or ()):
        yield from _port_warnings(subset.ports or (), ("subsets", index, "ports"))


ENDPOINTS = Kind(
    name="Endpoints",
    group="",
    versions=("v1",),
    spec=EndpointsFields,
    body=Body.DOCUMENT,
    validate=_endpoints_mistakes,
    warn=_endpoints_warnings,
)


def _port_warnings(ports: Iterable[EndpointPort], path: FieldPath) -> Iterator[Finding]:
    """Yield the ports of endpoints on which proxies themselves listen."""
    for index, each in enumerate(ports):
        warning = proxy_port_warning(each.port) if each.port is not None else None
        if warning is not None:
            yield (*path, index, "port"), warning
