"""WorkloadEntry: one workload, an endpoint of the services that select it.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from istio_config.addresses import is_host, is_ip, socket_path
from istio_config.kinds.checks import is_dns_label, label_mistakes
from istio_config.kinds.fields import Labels, PortNumber, SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes import KubernetesFields
from istio_config.kinds.metadata import Metadata
from istio_config.proxy_ports import proxy_port_warning
from mesh_configfile.shapes import Finding
from mesh_identity import InvalidSpiffeId, checked_segment


class WorkloadEntrySpec(SpecFields, frozen=True):
    """One workload: an endpoint of the services that select it."""

    address: str = ""
    ports: dict[str, PortNumber] = msgspec.field(default_factory=dict)
    labels: Labels = msgspec.field(default_factory=dict)
    network: str = ""
    locality: str = ""
    weight: Annotated[int, msgspec.Meta(ge=0, le=4294967295)] = 0
    service_account: str = ""


class WorkloadCondition(KubernetesFields, frozen=True):
    """A condition of a workload, such as Healthy."""

    type: str = ""
    status: str = ""


class WorkloadEntryStatus(KubernetesFields, frozen=True):
    """The status of a workload, as a control plane has written it."""

    conditions: tuple[WorkloadCondition, ...] | None = None


def workload_entry_mistakes(spec: WorkloadEntrySpec) -> Iterator[Finding]:
    """Yield what is wrong with a workload, be it in an entry of its own or in a ServiceEntry."""
    yield from _address_mistakes(spec)
    for name in spec.ports:
        if not is_dns_label(name.lower()):
            yield (
                ("ports", name),
                f'"{name}" is not the name of a port; it has a-z 0-9 and "-" between them',
            )
    yield from label_mistakes(spec.labels, ("labels",))
    if spec.service_account:
        try:
            checked_segment(spec.service_account, what="service account")
        except InvalidSpiffeId as error:
            yield ("serviceAccount",), str(error)


def _mistakes(spec: WorkloadEntrySpec, _metadata: Metadata) -> Iterator[Finding]:
    return workload_entry_mistakes(spec)


def _address_mistakes(spec: WorkloadEntrySpec) -> Iterator[Finding]:
    address = spec.address
    if not address:
        if not spec.network:
            yield ("address",), "is missing: give the workload's IP address"
        return
    path = socket_path(address)
    if path is not None:
        if not path.startswith(("/", "@")):  # a name that begins with "@" is in no directory
            yield ("address",), f'"{address}" must be unix:// and an absolute path, or unix://@name'
        elif path.endswith("/"):
            yield ("address",), f'"{address}" is a directory; name the socket in it'
        if spec.ports:
            yield ("ports",), "a Unix socket has no ports"
    elif not is_ip(address) and not is_host(address):
        yield ("address",), f'"{address}" is not an IP address, a host name or unix:///path'


def workload_entry_warnings(spec: WorkloadEntrySpec) -> Iterator[Finding]:
    """Yield what is accepted in a workload and probably not meant."""
    for name, number in spec.ports.items():
        if (warning := proxy_port_warning(number)) is not None:
            yield ("ports", name), warning
    if not spec.address and spec.network:
        yield (
            ("network",),
            (
                f"the workload has no address: it is reached by the gateways of {spec.network} "
                "alone, and not at all where there are none"
            ),
        )


WORKLOAD_ENTRY = Kind(
    name="WorkloadEntry",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=WorkloadEntrySpec,
    status=WorkloadEntryStatus,
    validate=_mistakes,
    warn=lambda spec, _metadata: workload_entry_warnings(spec),
)
