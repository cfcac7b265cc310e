"""Finds Istio's annotations where they have no effect: misspelt, at another kind, or a wrong value.

Source: Istio's API 1.32, annotation/annotations.yaml.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from istio_config.addresses import is_network
from istio_config.manifests._manifest import Manifest
from istio_config.manifests._pod_templates import pod_templates
from mesh_configfile import FieldPath, Problem, suggestion

_AT: Mapping[str, tuple[str, ...]] = {
    "Service": (
        "alpha.istio.io/canonical-serviceaccounts",
        "alpha.istio.io/kubernetes-serviceaccounts",
        "networking.istio.io/exportTo",
        "traffic.istio.io/nodeSelector",
    ),
    "Pod": (
        "ambient.istio.io/bypass-inbound-capture",
        "ambient.istio.io/dns-capture",
        "ambient.istio.io/redirection",
        "inject.istio.io/templates",
        "istio.io/reroute-virtual-interfaces",
        "istio.io/rev",
        "prometheus.istio.io/merge-metrics",
        "prometheus.istio.io/scrape-targets",
        "proxy.istio.io/config",
        "proxy.istio.io/overrides",
        "readiness.status.sidecar.istio.io/applicationPorts",
        "readiness.status.sidecar.istio.io/failureThreshold",
        "readiness.status.sidecar.istio.io/initialDelaySeconds",
        "readiness.status.sidecar.istio.io/periodSeconds",
        "sidecar.istio.io/agentLogLevel",
        "sidecar.istio.io/bootstrapOverride",
        "sidecar.istio.io/componentLogLevel",
        "sidecar.istio.io/discoveryAddress",
        "sidecar.istio.io/extraStatTags",
        "sidecar.istio.io/inject",
        "sidecar.istio.io/interceptionMode",
        "sidecar.istio.io/logLevel",
        "sidecar.istio.io/nativeSidecar",
        "sidecar.istio.io/proxyCPU",
        "sidecar.istio.io/proxyCPULimit",
        "sidecar.istio.io/proxyImage",
        "sidecar.istio.io/proxyImageType",
        "sidecar.istio.io/proxyMemory",
        "sidecar.istio.io/proxyMemoryLimit",
        "sidecar.istio.io/rewriteAppHTTPProbers",
        "sidecar.istio.io/statsCompression",
        "sidecar.istio.io/statsEvictionInterval",
        "sidecar.istio.io/statsFlushInterval",
        "sidecar.istio.io/statsHistogramBins",
        "sidecar.istio.io/statsHistogramBuckets",
        "sidecar.istio.io/statsInclusionPrefixes",
        "sidecar.istio.io/statsInclusionRegexps",
        "sidecar.istio.io/statsInclusionSuffixes",
        "sidecar.istio.io/status",
        "sidecar.istio.io/userVolume",
        "sidecar.istio.io/userVolumeMount",
        "status.sidecar.istio.io/port",
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "traffic.sidecar.istio.io/excludeInterfaces",
        "traffic.sidecar.istio.io/excludeOutboundIPRanges",
        "traffic.sidecar.istio.io/excludeOutboundPorts",
        "traffic.sidecar.istio.io/includeInboundPorts",
        "traffic.sidecar.istio.io/includeOutboundIPRanges",
        "traffic.sidecar.istio.io/includeOutboundPorts",
        "traffic.sidecar.istio.io/kubevirtInterfaces",
    ),
    "GatewayClass Gateway": ("ambient.istio.io/waypoint-inbound-binding",),
    "Any": (
        "galley.istio.io/analyze-suppress",
        "gateway.istio.io/controller-version",
    ),
    "Gateway": (
        "gateway.istio.io/name-override",
        "gateway.istio.io/service-account",
        "networking.istio.io/service-type",
    ),
    "WorkloadEntry": (
        "istio.io/autoRegistrationGroup",
        "istio.io/connectedAt",
        "istio.io/disconnectedAt",
        "istio.io/workloadController",
    ),
    "AuthorizationPolicy": ("istio.io/dry-run",),
    "Service ServiceEntry Namespace": ("istio.io/use-waypoint-canary-weight",),
    "Ingress": ("kubernetes.io/ingress.class",),
    "Namespace Service ServiceEntry": ("networking.istio.io/traffic-distribution",),
    "Namespace": ("topology.istio.io/controlPlaneClusters",),
}
"""The annotations by the kinds that have them."""
_KINDS = {name: kinds.split() for kinds, names in _AT.items() for name in names}
_DEPRECATED = frozenset(
    {
        "alpha.istio.io/canonical-serviceaccounts",
        "alpha.istio.io/kubernetes-serviceaccounts",
        "sidecar.istio.io/discoveryAddress",
        "sidecar.istio.io/extraStatTags",
        "sidecar.istio.io/inject",
        "sidecar.istio.io/statsCompression",
        "sidecar.istio.io/statsInclusionPrefixes",
        "sidecar.istio.io/statsInclusionRegexps",
        "sidecar.istio.io/statsInclusionSuffixes",
        "traffic.sidecar.istio.io/kubevirtInterfaces",
    }
)
_WRITTEN_BY_ISTIO = frozenset(
    {"sidecar.istio.io/status", "gateway.istio.io/controller-version", "istio.io/rev"}
)
_MANAGED = "gateway.istio.io/managed"
_INJECT = "sidecar.istio.io/inject"
_INJECTION, _REVISION, _MODE = "istio-injection", "istio.io/rev", "istio.io/dataplane-mode"
_LOOKED_AT = frozenset({"Namespace", "Service", "Pod", "Deployment"})


def annotation_findings(manifests: Iterable[Manifest]) -> tuple[list[Problem], list[Problem]]:
    """Return warnings and hints about annotations.

    Of the templates of Deployments too, whose annotations are those of pods.
    """
    warnings: list[Problem] = []
    hints: list[Problem] = []
    for manifest, path, kind in _places(manifests):
        annotations = manifest.texts(*path, "annotations")
        labels = manifest.mapping(*path, "labels")
        for name, value in annotations.items():
            prefix = name.partition("/")[0]
            if prefix == "internal.istio.io":  # written by Istio's controllers
                continue
            is_istios = prefix.endswith("istio.io") or name == "kubernetes.io/ingress.class"
            if not is_istios or name in _WRITTEN_BY_ISTIO:
                continue
            field = (*path, "annotations", name)
            if name in _DEPRECATED and not (name == _INJECT and _INJECT in labels):
                instead = f"; use the label {_INJECT}" if name == _INJECT else ""
                message = f"is deprecated, and may have no effect in a later Istio{instead}"
                hints.append(manifest.problem(field, message, "IST0135"))
            if (found := _wrong(name, value, kind)) is not None:
                warnings.append(manifest.problem(field, *found))
    return warnings, hints


def contradicting_labels(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield the namespaces whose labels choose two ways into the mesh."""
    for each in manifests:
        labels = each.texts("metadata", "labels")
        injection = labels.get(_INJECTION)
        chosen = [name for name in (_REVISION, _MODE) if name in labels]
        if injection == "enabled":
            chosen = [_INJECTION, *chosen]
        elif injection is not None:
            chosen = []
        if each.kind == "Namespace" and len(chosen) > 1:
            yield each.problem(
                ("metadata", "labels", chosen[1]),
                f"stands beside {chosen[0]}, and each chooses how pods come into the mesh; keep "
                "one of the two",
                "IST0123",
            )


def _wrong(name: str, value: str, kind: str) -> tuple[str, str] | None:
    """Return what is wrong with an annotation, and its code."""
    kinds = _KINDS.get(name)
    if kinds is None:
        near = suggestion(name, tuple(_KINDS), listed=False)
        return f"is no annotation of Istio's: it has no effect{near}", "IST0108"
    if "Any" not in kinds and kind not in kinds:
        return f"is for a {' or '.join(kinds)}: at a {kind} it has no effect", "IST0107"
    expected = _EXPECTED.get(name)
    if expected is None or expected[0](value):
        return None
    return f'"{value}" is not {expected[1]}', "IST0125"


def _places(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, FieldPath, str]]:
    """Yield where annotations are looked at, and of which kind they are there."""
    # What Istio deploys for a Gateway has the annotations of that.
    known = [each for each in manifests if _MANAGED not in each.texts("metadata", "labels")]
    for each in known:
        if each.kind in _LOOKED_AT and each.group in ("", "apps"):
            yield each, ("metadata",), each.kind
    for template in pod_templates(known):
        if template.path:
            yield template.manifest, (*template.path, "metadata"), "Pod"


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and int(value) < 1 << 32


def _is_port(value: str) -> bool:
    return _is_number(value) and int(value) <= 65535


def _is_ports(value: str) -> bool:
    return all(_is_port(each.strip()) for each in value.split(",")) if value.strip() else True


def _is_ports_or_all(value: str) -> bool:
    return value == "*" or _is_ports(value)


def _is_networks(value: str) -> bool:
    parts = (each.strip() for each in value.split(",") if each.strip())
    return value == "*" or all("/" in each and is_network(each) for each in parts)


def _is_boolean(value: str) -> bool:
    return value.lower() in ("1", "0", "t", "f", "true", "false")


_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


def _is_quantity(value: str) -> bool:
    return _QUANTITY.fullmatch(value) is not None


_PORTS = (_is_ports, "a list of ports such as 80,443")
_PORTS_OR_ALL = (_is_ports_or_all, "* or a list of ports such as 80,443")
_NETWORKS = (_is_networks, "* or a list of ranges such as 10.0.0.0/8")
_NUMBER = (_is_number, "a number")
_AMOUNT = (_is_quantity, "a quantity such as 100m or 128Mi")
_TRAFFIC, _READINESS = "traffic.sidecar.istio.io/", "readiness.status.sidecar.istio.io/"
_EXPECTED: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "sidecar.istio.io/interceptionMode": (
        lambda value: value in ("REDIRECT", "TPROXY", "NONE"),
        "one of REDIRECT, TPROXY, NONE",
    ),
    "status.sidecar.istio.io/port": (_is_port, "a port"),
    f"{_READINESS}initialDelaySeconds": _NUMBER,
    f"{_READINESS}periodSeconds": _NUMBER,
    f"{_READINESS}failureThreshold": _NUMBER,
    f"{_TRAFFIC}includeOutboundIPRanges": _NETWORKS,
    f"{_TRAFFIC}excludeOutboundIPRanges": _NETWORKS,
    f"{_TRAFFIC}includeInboundPorts": _PORTS_OR_ALL,
    f"{_TRAFFIC}excludeInboundPorts": _PORTS,
    f"{_TRAFFIC}excludeOutboundPorts": _PORTS,
    "prometheus.istio.io/merge-metrics": (_is_boolean, "true or false"),
    "sidecar.istio.io/proxyCPU": _AMOUNT,
    "sidecar.istio.io/proxyMemory": _AMOUNT,
    "sidecar.istio.io/proxyCPULimit": _AMOUNT,
    "sidecar.istio.io/proxyMemoryLimit": _AMOUNT,
}
