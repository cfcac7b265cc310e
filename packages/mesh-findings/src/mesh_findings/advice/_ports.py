"""Finds ports whose protocol is not said, or said in two ways."""

from collections.abc import Iterator

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE, ServiceType, TransportProtocol
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import SERVICE_ENTRY, ServiceEntrySpec
from mesh_configfile import Problem
from mesh_findings.advice._mesh import Mesh

_OF_THE_PLATFORM = ("kube-system",)
_MANAGED = "gateway.istio.io/managed"


def unnamed_protocols(mesh: Mesh) -> Iterator[Problem]:
    """Yield the ports of Kubernetes services whose protocol proxies have to detect."""
    passed_over = (mesh.model.mesh_config.root_namespace, *_OF_THE_PLATFORM)
    for item, spec in mesh.of_kind(KUBERNETES_SERVICE):
        if item.namespace in passed_over or _MANAGED in dict(item.labels):
            continue
        is_alias = spec.type is ServiceType.EXTERNAL_NAME
        for index, port in enumerate(spec.ports or ()):
            if port.protocol is not TransportProtocol.TCP:
                continue
            said = Protocol.from_kubernetes_port(port.app_protocol, port.name, port.port)
            if is_alias and (said is Protocol.AUTO or port.name == "tcp"):
                yield item.problem(
                    ("spec", "ports", index),
                    "leads to a host outside by a port that does not say its protocol, or TCP: "
                    "all that goes to this port of any host may be sent there; name the port "
                    "http-…, tls-… or the like",
                    "IST0150",
                )
            elif said is Protocol.AUTO:
                yield item.problem(
                    ("spec", "ports", index),
                    f"does not say the protocol of port {port.port}, so proxies detect it, which "
                    "takes time and fails where the server speaks first; name the port http-…, "
                    "tcp-… or the like, or give appProtocol",
                    "IST0118",
                )


def contradicting_protocols(mesh: Mesh) -> Iterator[Problem]:
    """Yield ports for which ServiceEntries of one host and namespace have different protocols.

    Between namespaces, each proxy has one of the two, and that is reported elsewhere.
    """
    first: dict[tuple[str, str, int], tuple[ConfigObject, ServiceEntrySpec, Protocol]] = {}
    for item, spec in mesh.of_kind(SERVICE_ENTRY):
        for index, port in enumerate(spec.ports):
            for host in dict.fromkeys(each.lower() for each in spec.hosts):
                here = item, spec, port.known_protocol
                known, other, protocol = first.setdefault((item.namespace, host, port.number), here)
                if (
                    protocol is not port.known_protocol
                    and known is not item
                    and _meet(spec.export_to, other.export_to)
                ):
                    yield item.problem(
                        ("spec", "ports", index, "protocol"),
                        f"is {port.known_protocol} for {host} port {port.number}, and "
                        f"ServiceEntry {known.namespace}/{known.name} ({known.place}) says "
                        f"{protocol}: one of the two holds for both; give them the same",
                        "IST0177",
                    )
                    break


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether some namespace sees both; none named: all do."""
    ours, theirs = set(one) or {"*"}, set(other) or {"*"}
    if "~" in ours or "~" in theirs:
        return False
    return "*" in ours or "*" in theirs or bool(ours & theirs)
