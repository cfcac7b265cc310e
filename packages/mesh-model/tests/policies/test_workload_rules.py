"""The objects that are for workloads: which apply to one, and which differ from model to model."""

from typing import Any, cast

import pytest

from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.selection import (
    Selection,
    TargetRef,
    WorkloadSelector,
    selection_mistakes,
    selection_of,
)
from mesh_model.policies._workload_rules import Workload, WorkloadRule, WorkloadRules

ROOT = "istio-system"
GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"


class Spec(SpecFields, frozen=True):
    selector: WorkloadSelector | None = None
    target_refs: tuple[TargetRef, ...] = ()

    @property
    def selection(self) -> Selection:
        return selection_of(self.selector, self.target_refs)


KIND = Kind(name="Rule", group="x.example", versions=("v1",), spec=Spec)


def rule(
    namespace: str, name: str, labels: dict[str, str] | None = None, *, gateway: str = ""
) -> WorkloadRule[Spec]:
    refs = (TargetRef(kind="Gateway", name=gateway),) if gateway else ()
    selector = WorkloadSelector(match_labels=labels) if labels else None
    spec = Spec(selector=selector, target_refs=refs)
    return WorkloadRule(kind="Rule", namespace=namespace, name=name, spec=spec, annotations=())


def rules(*each: WorkloadRule[Spec]) -> WorkloadRules:
    by_namespace: dict[str, tuple[WorkloadRule[Spec], ...]] = {}
    for one in each:
        by_namespace[one.namespace] = (*by_namespace.get(one.namespace, ()), one)
    return WorkloadRules({"Rule": cast("Any", by_namespace)}, root_namespace=ROOT)


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


ALL = (
    rule(ROOT, "everywhere"),
    rule(ROOT, "webs", {"app": "web"}),
    rule("a", "all-of-a"),
    rule("a", "web-of-a", {"app": "web"}),
    rule("a", "web-v1-of-a", {"app": "web", "version": "v1"}),
    rule("b", "all-of-b"),
    rule("a", "gateway", gateway="west"),
)
OF_WORKLOADS = {
    "no labels": (Workload("a"), ["everywhere", "all-of-a"]),
    "one label": (
        Workload("a", labels(app="web")),
        ["everywhere", "webs", "all-of-a", "web-of-a"],
    ),
    "all labels": (
        Workload("a", labels(app="web", version="v1", more="x")),
        ["everywhere", "webs", "all-of-a", "web-of-a", "web-v1-of-a"],
    ),
    "another value": (Workload("a", labels(app="db")), ["everywhere", "all-of-a"]),
    "another namespace": (Workload("b", labels(app="web")), ["everywhere", "webs", "all-of-b"]),
    "the root namespace itself": (Workload(ROOT, labels(app="web")), ["everywhere", "webs"]),
    "the gateway that is named": (
        Workload("a", ((GATEWAY_NAME, "west"),), is_gateway=True),
        ["everywhere", "all-of-a", "gateway"],
    ),
    "another gateway": (
        Workload("a", ((GATEWAY_NAME, "east"),), is_gateway=True),
        ["everywhere", "all-of-a"],
    ),
    "a gateway of that name elsewhere": (
        Workload("b", ((GATEWAY_NAME, "west"),), is_gateway=True),
        ["everywhere", "all-of-b"],
    ),
    "a sidecar with the label of the gateway": (
        Workload("a", ((GATEWAY_NAME, "west"),)),
        ["everywhere", "all-of-a"],
    ),
}


@pytest.mark.parametrize("case", OF_WORKLOADS)
def test_rules_apply_by_namespace_and_labels_those_of_the_root_namespace_first(case: str) -> None:
    workload, wanted = OF_WORKLOADS[case]
    found = rules(*ALL)
    assert [each.name for each in found.applying(KIND, workload)] == wanted
    assert [
        each.name for each in ALL if found.applies(("Rule", each.namespace, each.name), workload)
    ] == wanted


def test_rule_that_is_not_there_applies_to_none() -> None:
    assert not rules(*ALL).applies(("Rule", "a", "none"), Workload("a"))
    assert not rules(*ALL).applies(("Other", "a", "all-of-a"), Workload("a"))


def test_rules_that_are_the_same_objects_do_not_differ() -> None:
    assert rules(*ALL).differing(rules(*ALL)) == frozenset()


def test_rules_differ_that_were_edited_added_or_removed() -> None:
    one, other, added = rule("a", "edited"), rule("a", "edited"), rule("b", "added")
    stays, gone = rule("a", "stays"), rule("c", "gone")
    assert rules(one, stays, gone).differing(rules(other, stays, added)) == {
        ("Rule", "a", "edited"),
        ("Rule", "b", "added"),
        ("Rule", "c", "gone"),
    }


def test_all_may_differ_where_only_their_order_is_another() -> None:
    one, other = rule("a", "one"), rule("a", "other")
    assert len(rules(one, other).differing(rules(other, one))) == 2


API = "gateway.networking.k8s.io"
REFS_AND_MISTAKES = {
    "a gateway": (API, "Gateway", "", None),
    "with a namespace": (API, "Gateway", "a", 'must be left out: it is the object\'s own, "a"'),
    "a service": ("", "Service", "", None),
    "something else": (
        "apps",
        "Deployment",
        "",
        f'"apps/Deployment" can\'t be referred to; use {API}/Gateway',
    ),
}


@pytest.mark.parametrize("case", REFS_AND_MISTAKES)
def test_gateways_of_the_own_namespace_alone_can_be_referred_to(case: str) -> None:
    group, kind, namespace, wanted = REFS_AND_MISTAKES[case]
    ref = TargetRef(kind=kind, name="x", group=group, namespace=namespace)
    found = [text for _, text in selection_mistakes(None, (ref,), "a")]
    assert found == ([wanted] if wanted else [])


def test_selector_beside_references_is_a_mistake() -> None:
    ref = TargetRef(kind="Gateway", name="x", group=API)
    found = list(selection_mistakes({"app": "web"}, (ref,), "a"))
    assert found == [(("targetRefs",), "stands beside selector: keep one")]
