"""Finds policies that are attached to a Gateway of the Gateway API which is not there."""

from collections.abc import Iterator

from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY
from istio_config.kinds.envoy_filter import ENVOY_FILTER
from istio_config.kinds.gateway_api import GATEWAY as KUBERNETES_GATEWAY
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.telemetry import TELEMETRY
from istio_config.kinds.traffic_extension import EXTENSION_KINDS
from mesh_configfile import Problem
from mesh_findings.advice._mesh import Mesh
from mesh_findings.reachability._references import gateway_targets
from mesh_model import NAME_LABEL

ATTACHED: tuple[AnyKind, ...] = (
    AUTHORIZATION_POLICY,
    ENVOY_FILTER,
    REQUEST_AUTHENTICATION,
    TELEMETRY,
    *EXTENSION_KINDS,
)
"""The kinds of objects that may be attached to a Gateway."""


def absent_targets(mesh: Mesh) -> Iterator[Problem]:
    """Yield the references to Gateways that neither an object nor the label of a workload names."""
    targets = [
        (item, path, name)
        for kind in ATTACHED
        for item, spec in mesh.of_kind(kind)
        for path, name in gateway_targets(spec)
    ]
    if not targets:
        return
    known = {(each.namespace, each.name) for each, _ in mesh.of_kind(KUBERNETES_GATEWAY)}
    for item, path, name in targets:
        here = item.namespace
        if (here, name) in known:
            continue
        if any(namespace == here for namespace, _ in mesh.having(NAME_LABEL, name)):
            continue
        yield item.problem(
            path,
            f"there is no Gateway {here}/{name} of the Gateway API, and no workload that is known "
            "is a router of one: it holds for no proxy",
            "IST0101",
        )
