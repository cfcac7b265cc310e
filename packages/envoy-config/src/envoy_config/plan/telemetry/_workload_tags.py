"""Istio's tags of spans about the workload of the proxy that makes them."""

from envoy_config.plan._proxy import Proxy
from envoy_config.plan.resolved._telemetry import Tag

_METADATA = "xds.node.metadata"
_LABELS = f"{_METADATA}['LABELS']"
_NAME = "service.istio.io/canonical-name"
_REVISION = "service.istio.io/canonical-revision"


def workload_tags(proxy: Proxy) -> tuple[Tag, ...]:
    """Return the tags about a proxy's workload.

    Where its Envoy can, it takes the values from its own node, so that proxies of all workloads
    share listeners; others are given them.
    """
    if proxy.takes_tag_values:
        return _BY_NODE
    labels = dict(proxy.labels)
    return (
        Tag("istio.canonical_revision", "literal", labels.get(_REVISION) or "latest"),
        Tag("istio.canonical_service", "literal", labels.get(_NAME) or "unknown"),
        Tag("istio.cluster_id", "literal", proxy.location.cluster or "unknown"),
        Tag("istio.namespace", "literal", proxy.namespace),
    )


def _by_node(tag: str, where: str, key: str, default: str) -> Tag:
    known = f"'{key}' in {where}"
    if where == _LABELS:
        known = f"'LABELS' in {_METADATA} && {known}"
    return Tag(tag, "formatter", f"%CEL({known} ? {where}['{key}'] : '{default}')%")


_BY_NODE = (
    _by_node("istio.canonical_revision", _LABELS, _REVISION, "latest"),
    _by_node("istio.canonical_service", _LABELS, _NAME, "unknown"),
    _by_node("istio.cluster_id", _METADATA, "CLUSTER_ID", "unknown"),
    _by_node("istio.mesh_id", _METADATA, "MESH_ID", "unknown"),
    _by_node("istio.namespace", _METADATA, "NAMESPACE", "default"),
)
