"""Finds workloads that several services select, whose ports contradict each other."""

from collections.abc import Iterable, Iterator, Mapping

from istio_config.manifests._manifest import Manifest
from istio_config.manifests._pod_templates import PodTemplate, pod_templates
from mesh_configfile import FieldPath, Problem

_Ports = Iterator[tuple[Manifest, Mapping[str, object]]]
_NAME: FieldPath = ("metadata", "name")
_MANAGED = "gateway.istio.io/managed"


def contradicting_services(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield Deployments whose services have one port in two protocols, or two for one target."""
    known = tuple(manifests)
    services = [each for each in known if each.kind == "Service" and not each.group]
    for template in pod_templates(known):
        if template.manifest.kind in ("Pod", "Job", "CronJob"):
            continue
        if _MANAGED in template.manifest.texts("metadata", "labels") or not template.is_injected:
            continue
        selecting = [each for each in services if _selects(each, template)]
        if len(selecting) > 1:
            yield from _two_protocols(template, selecting)
            yield from _two_ports(template, selecting)


def _selects(service: Manifest, template: PodTemplate) -> bool:
    wanted = service.texts("spec", "selector").items()
    return (
        bool(wanted)
        and service.namespace == template.manifest.namespace
        and wanted <= dict(template.labels).items()
    )


def _ports(services: Iterable[Manifest]) -> _Ports:
    for service in services:
        for port in service.items("spec", "ports"):
            if isinstance(port, dict):
                yield service, port


def _two_protocols(template: PodTemplate, services: list[Manifest]) -> Iterator[Problem]:
    protocols: dict[object, dict[str, str]] = {}
    for service, port in _ports(services):
        protocol = str(port.get("protocol") or "TCP")
        protocols.setdefault(port.get("port"), {}).setdefault(protocol, service.name)
    for number, found in protocols.items():
        if len(found) > 1:
            listed = ", ".join(f"{each} of Service {name}" for each, name in found.items())
            yield template.manifest.problem(
                _NAME,
                f"its pods serve port {number} in several protocols ({listed}), and a proxy has "
                "one for a port; give the services different ports",
                "IST0116",
            )


def _two_ports(template: PodTemplate, services: list[Manifest]) -> Iterator[Problem]:
    targets: dict[str, dict[object, str]] = {}
    for service, port in _ports(services):
        if port.get("protocol") not in ("UDP", "SCTP"):
            target = str(port.get("targetPort") or port.get("port"))
            targets.setdefault(target, {}).setdefault(port.get("port"), service.name)
    for target, found in targets.items():
        if len(found) > 1 and len(set(found.values())) > 1:
            listed = ", ".join(f"{number} of Service {name}" for number, name in found.items())
            yield template.manifest.problem(
                _NAME,
                f"several ports lead to port {target} of its pods ({listed}): what is said of one "
                "of them holds for all that arrives there; give each a target of its own",
                "IST0137",
            )
