"""The workload of an endpoint: its names and revision, as Istio derives them from labels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mesh_model import Endpoint, Labels

METRICS_KEY = "mesh.metrics"
"""The filter key of metadata of clusters and endpoints that tags of metrics are built from."""
NAME_LABELS = ("service.istio.io/canonical-name", "app.kubernetes.io/name", "app")
REVISION_LABELS = ("service.istio.io/canonical-revision", "app.kubernetes.io/version", "version")
_LATEST = "latest"
_UNKNOWN = "unknown"


class EndpointWorkload(NamedTuple):
    """The part of an endpoint that its workload's names come from."""

    workload: str
    namespace: str
    cluster: str
    labels: Labels


def workload_of_endpoint(endpoint: Endpoint) -> EndpointWorkload:
    """Return the workload of an endpoint."""
    return EndpointWorkload(
        endpoint.workload, endpoint.namespace, endpoint.cluster, endpoint.labels
    )


def workload_text(endpoint: EndpointWorkload) -> str:
    """Return workload, namespace, canonical service, revision and cluster, as Istio has them."""
    labels = dict(endpoint.labels)
    name = _first(labels, NAME_LABELS) or endpoint.workload
    revision = _first(labels, REVISION_LABELS)
    if revision == _LATEST:
        revision = ""
    return f"{endpoint.workload};{endpoint.namespace};{name};{revision};"


def workload_fields(
    endpoint: EndpointWorkload, namespace: str, principal: str
) -> Iterator[tuple[str, str]]:
    """Yield the same in parts, those that other parts don't imply; nothing for no workload.

    namespace: of the service. principal: that the endpoint proves by its certificate, or none.
    """
    labels = dict(endpoint.labels)
    name = _first(labels, NAME_LABELS) or endpoint.workload
    if not name:
        return
    if endpoint.workload:
        yield "workload", endpoint.workload
    if endpoint.namespace != namespace:
        yield "namespace", endpoint.namespace
    yield "service", name
    revision = _first(labels, REVISION_LABELS) or _LATEST
    yield "revision", revision
    for key, same in (("app", name), ("version", revision)):
        value = labels.get(key) or _UNKNOWN
        if value != same:
            yield key, value
    if endpoint.cluster:
        yield "cluster", endpoint.cluster
    if principal:
        yield "principal", principal


def _first(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")
