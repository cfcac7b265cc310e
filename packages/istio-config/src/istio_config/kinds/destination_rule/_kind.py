"""DestinationRule: its host, its policy and its subsets, and what must hold between them.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator

import msgspec

from istio_config.kinds.checks import (
    export_to_mistakes,
    is_dns_label,
    is_wildcard_host,
    label_mistakes,
)
from istio_config.kinds.destination_rule._traffic_policy import (
    TrafficPolicy,
    traffic_policy_mistakes,
    traffic_policy_warnings,
)
from istio_config.kinds.fields import Labels, SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import WorkloadSelector
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class Subset(SpecFields, frozen=True):
    """The endpoints of a service that have certain labels."""

    name: str = ""
    labels: Labels = msgspec.field(default_factory=dict)
    traffic_policy: TrafficPolicy | None = None


class DestinationRuleSpec(SpecFields, frozen=True):
    """How clients connect to a service, and the subsets that it has."""

    host: str = ""
    traffic_policy: TrafficPolicy | None = None
    subsets: tuple[Subset, ...] = ()
    export_to: tuple[str, ...] = ()
    workload_selector: WorkloadSelector | None = None


def _mistakes(spec: DestinationRuleSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a rule; paths start below its spec."""
    if not spec.host:
        yield (), "the field host is missing"
    elif not is_wildcard_host(spec.host):
        yield (
            ("host",),
            f'"{spec.host}" is not a host name; write it like reviews.example.com or *.example.com',
        )
    yield from export_to_mistakes(spec.export_to, metadata.namespace)
    if spec.workload_selector is not None and not _is_private(spec, metadata):
        yield (
            ("exportTo",),
            (
                "a rule with a workloadSelector is for its own namespace alone; remove exportTo, "
                'or write "."'
            ),
        )
    if spec.workload_selector is not None:
        yield from label_mistakes(
            spec.workload_selector.match_labels, ("workloadSelector", "matchLabels")
        )
    for path, policy in _policies(spec):
        for inner, message in traffic_policy_mistakes(policy):
            yield (*path, *inner), message
    seen: set[str] = set()
    for index, subset in enumerate(spec.subsets):
        path = ("subsets", index)
        if not is_dns_label(subset.name):
            yield (
                (*path, "name"),
                f'"{subset.name}" is not a name of small letters, digits and hyphens such as v1',
            )
        elif subset.name in seen:
            yield (*path, "name"), f'the subset "{subset.name}" is given twice'
        seen.add(subset.name)
        yield from label_mistakes(subset.labels, (*path, "labels"))


def _warnings(spec: DestinationRuleSpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted in a rule and probably not meant; paths start below its spec."""
    by_selector = spec.workload_selector is not None and bool(spec.workload_selector.match_labels)
    if spec.workload_selector is not None and not by_selector:
        yield ("workloadSelector",), "has no labels: it is for all workloads of the namespace"
    for path, policy in _policies(spec):
        for inner, message in traffic_policy_warnings(policy, by_selector=by_selector):
            yield (*path, *inner), message


def _is_private(spec: DestinationRuleSpec, metadata: Metadata) -> bool:
    """Return whether only the rule's own namespace sees it."""
    return all(each in (".", metadata.namespace) for each in spec.export_to)


def _policies(spec: DestinationRuleSpec) -> Iterator[tuple[FieldPath, TrafficPolicy]]:
    if spec.traffic_policy is not None:
        yield ("trafficPolicy",), spec.traffic_policy
    for index, subset in enumerate(spec.subsets):
        if subset.traffic_policy is not None:
            yield ("subsets", index, "trafficPolicy"), subset.traffic_policy


DESTINATION_RULE = Kind(
    name="DestinationRule",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=DestinationRuleSpec,
    validate=_mistakes,
    warn=_warnings,
)
