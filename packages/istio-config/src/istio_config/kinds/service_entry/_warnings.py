"""Choices in a ServiceEntry that are accepted and hardly meant.

Source: Istio's API reference and its validation.
"""

from collections.abc import Iterator

from istio_config.kinds.checks import port_name_warning
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry._spec import Resolution, ServiceEntrySpec
from istio_config.kinds.workload_entry import warn_of_workload_entry
from istio_config.proxy_ports import proxy_port_warning
from mesh_configfile.shapes import Finding

_NO_ADDRESS_LABEL = "networking.istio.io/enable-autoallocate-ip"


def warnings(spec: ServiceEntrySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield the doubtful choices in a ServiceEntry."""
    for index, host in enumerate(spec.hosts):
        if host.startswith("*") and not host.startswith("*."):
            yield (
                ("hosts", index),
                (
                    f'"{host}" has every host that ends in "{host[1:]}"; hosts below a domain are '
                    '"*." and its name'
                ),
            )
    if spec.resolution is Resolution.NONE and spec.workload_selector is not None:
        yield (
            ("workloadSelector",),
            "resolution NONE leads to where a connection was going: no workload is looked for",
        )
    for index, port in enumerate(spec.ports):
        undeclared = port_name_warning(port.protocol, port.name, elsewhere=", elsewhere it is TCP")
        if undeclared is not None:
            yield ("ports", index, "name"), undeclared
        field = "targetPort" if port.target_port is not None else "number"
        if (warning := proxy_port_warning(port.target_port or port.number)) is not None:
            yield ("ports", index, field), warning
        if _without_address(spec, metadata) and not _says_its_host(port.known_protocol):
            yield (
                ("ports", index),
                (
                    f"the service has no address, so port {port.number} of every address leads "
                    "to it unless another service comes first; give it addresses"
                ),
            )
    for index, endpoint in enumerate(spec.endpoints):
        for path, message in warn_of_workload_entry(endpoint):
            yield ("endpoints", index, *path), message


def _without_address(spec: ServiceEntrySpec, metadata: Metadata) -> bool:
    """Return whether a service has no address, and gets none allocated."""
    if spec.addresses or spec.resolution is Resolution.DYNAMIC_DNS:
        return False
    return (
        spec.resolution is Resolution.NONE
        or metadata.labels.get(_NO_ADDRESS_LABEL) == "false"
        or any(host.startswith("*") for host in spec.hosts)
    )


def _says_its_host(protocol: Protocol) -> bool:
    return protocol.is_http or protocol.is_tls or protocol is Protocol.UDP
