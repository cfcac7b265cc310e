"""All that is said of documents beside what is served of them."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from istio_config.manifests._annotations import annotation_findings, contradicting_labels
from istio_config.manifests._associations import contradicting_services
from istio_config.manifests._conditions import negative_conditions
from istio_config.manifests._manifest import manifests_of
from istio_config.manifests._pod_templates import pod_templates, wrong_users
from mesh_configfile import Document, Problem

_Labels = tuple[tuple[str, str], ...]


class ManifestReview(NamedTuple):
    """The findings about documents. pods: the labels of those that they describe, by namespace."""

    warnings: tuple[Problem, ...]
    hints: tuple[Problem, ...]
    pods: Mapping[str, AbstractSet[_Labels]]


def review_manifests(
    documents: Iterable[Document], *, root_namespace: str = "istio-system"
) -> ManifestReview:
    """Look at documents of all kinds; root_namespace: whose workloads are Istio's own."""
    manifests = tuple(manifests_of(documents))
    warnings, hints = annotation_findings(manifests)
    warnings += [
        *contradicting_services(manifests),
        *negative_conditions(manifests),
        *contradicting_labels(manifests),
    ]
    pods: dict[str, set[_Labels]] = {}
    for each in pod_templates(manifests):
        if each.manifest.namespace != root_namespace:
            warnings += wrong_users(each)
        if each.labels:
            pods.setdefault(each.manifest.namespace, set()).add(each.labels)
    return ManifestReview(tuple(sorted(set(warnings))), tuple(sorted(set(hints))), pods)
