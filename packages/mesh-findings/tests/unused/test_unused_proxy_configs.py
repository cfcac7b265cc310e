"""ProxyConfigs that have no effect beside older ones, or for labels that nothing has, are told."""

from collections.abc import Callable

import pytest

from documents import workload
from istio_config import Snapshot, read_content, snapshot_of
from mesh_findings import advise_on, review, selections_of_nothing
from mesh_model import Facts, MeshModel, build_model

Build = Callable[..., MeshModel]


def proxy_config(name: str, namespace: str, selector: str = "") -> str:
    chosen = f"selector: {{matchLabels: {{{selector}}}}}, " if selector else ""
    return (
        "apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{chosen}concurrency: 1}}\n"
    )


def known(name: str, namespace: str, labels: str) -> str:
    spec = f"address: 10.0.0.1, serviceAccount: {name}, labels: {{{labels}}}"
    return workload(name, spec, namespace=namespace)


def snapshot(*documents: str) -> Snapshot:
    content = read_content("---\n".join(documents).encode(), file="mesh.yaml", keep_lines=True)
    assert not content.problems
    return snapshot_of([content])


def test_all_but_the_oldest_for_a_namespace_have_no_effect(model_of: Build) -> None:
    others = [proxy_config("first", "a"), proxy_config("other", "b"), proxy_config("mesh", "c")]
    model = model_of(*others, proxy_config("second", "a"), proxy_config("of-some", "a", "app: web"))
    (problem,) = review(model).problems
    assert problem.message == (
        "the ProxyConfig first is for all workloads of the namespace, too, and is older: this one "
        "has no effect"
    )
    alone = model_of(*others, proxy_config("second", "d"))
    assert review(alone, review(model)).problems == ()


@pytest.mark.parametrize(
    ("namespace", "selector", "wanted"),
    [
        ("a", "app: web", []),
        ("a", "app: wep", ["spec.selector.matchLabels"]),
        # A selector in the root namespace is for its own workloads alone.
        ("istio-system", "app: web", ["spec.selector.matchLabels"]),
        ("istio-system", "istio: ingress", []),
    ],
)
def test_labels_that_no_workload_of_the_namespace_has_are_told(
    namespace: str, selector: str, wanted: list[str]
) -> None:
    found = snapshot(
        known("web", "a", "app: web"),
        known("ingress", "istio-system", "istio: ingress"),
        proxy_config("p", namespace, selector),
    )
    model = build_model(Facts(snapshot=found))
    assert [each.field for each in selections_of_nothing(found.objects, model)] == wanted


def test_the_later_of_two_that_choose_the_same_workload_is_told() -> None:
    found = snapshot(
        known("web", "a", "app: web, version: v1"),
        proxy_config("first", "a", "app: web"),
        proxy_config("second", "a", "version: v1"),
        proxy_config("third", "b", "version: v1"),
    )
    model = build_model(Facts(snapshot=found))
    (warning,) = advise_on(found, model, {}).warnings
    assert warning.message.startswith("ProxyConfig first (mesh.yaml:")
    assert warning.message.endswith(
        "chooses some of the same workloads, comes first, and is the only one that they have; "
        "make it one ProxyConfig"
    )
