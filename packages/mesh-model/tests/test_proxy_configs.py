"""The ProxyConfigs for a workload: one of each level, the narrowest last."""

import pytest

from mesh_model import Workload
from mesh_model.proxy_configs import ProxyConfigs, StartSettings, proxy_configs_for
from models import Models

ROOT = "istio-system"


def proxy_config(name: str, namespace: str, spec: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )


def spec(concurrency: int | None = None, *, selector: str = "", **variables: str) -> str:
    given = [f"concurrency: {concurrency}"] if concurrency is not None else []
    if variables:
        listed = ", ".join(f"{name}: '{value}'" for name, value in variables.items())
        given.append(f"environmentVariables: {{{listed}}}")
    if selector:
        given.append(f"selector: {{matchLabels: {{{selector}}}}}")
    return ", ".join(given)


MESH = proxy_config("mesh", ROOT, spec(1, A="mesh", B="mesh", C="mesh"))
NAMESPACE = proxy_config("namespace", "a", spec(2, B="namespace", C="namespace"))
WEB = proxy_config("web", "a", spec(3, selector="app: web", C="web"))
WEB_LABELS = (("app", "web"), ("version", "v1"))


def found(models: Models, workload: Workload, *documents: str) -> ProxyConfigs:
    rules = models(*documents).workload_rules
    return proxy_configs_for(rules, workload, root_namespace=ROOT)


def names(configs: ProxyConfigs) -> list[str | None]:
    return [each.name if each is not None else None for each in configs]


@pytest.mark.parametrize(
    ("documents", "concurrency", "variables"),
    [
        ((), None, {}),
        ((MESH,), 1, {"A": "mesh", "B": "mesh", "C": "mesh"}),
        ((MESH, NAMESPACE), 2, {"A": "mesh", "B": "namespace", "C": "namespace"}),
        ((MESH, NAMESPACE, WEB), 3, {"A": "mesh", "B": "namespace", "C": "web"}),
        ((WEB, NAMESPACE, MESH), 3, {"A": "mesh", "B": "namespace", "C": "web"}),
        ((MESH, WEB), 3, {"A": "mesh", "B": "mesh", "C": "web"}),
        (
            (MESH, proxy_config("few", "a", spec(C="few"))),
            1,
            {"A": "mesh", "B": "mesh", "C": "few"},
        ),
        ((MESH, proxy_config("all", "a", spec(0))), 0, {"A": "mesh", "B": "mesh", "C": "mesh"}),
    ],
)
def test_a_narrower_level_replaces_concurrency_and_adds_variables(
    documents: tuple[str, ...],
    concurrency: int | None,
    variables: dict[str, str],
    model_of: Models,
) -> None:
    settings = found(model_of, Workload("a", WEB_LABELS), *documents).settings
    assert settings == StartSettings(concurrency, tuple(variables.items()))


def test_of_each_level_the_oldest_is_the_only_one(model_of: Models) -> None:
    later = [
        proxy_config(f"{name}-2", namespace, spec(9, selector=selector, D="later"))
        for name, namespace, selector in (
            ("mesh", ROOT, ""),
            ("namespace", "a", ""),
            ("web", "a", "version: v1"),
        )
    ]
    workload = Workload("a", WEB_LABELS)
    assert names(found(model_of, workload, MESH, NAMESPACE, WEB, *later)) == [
        "mesh",
        "namespace",
        "web",
    ]


@pytest.mark.parametrize(
    ("workload", "wanted"),
    [
        (Workload("a"), ["mesh", "namespace", None]),
        (Workload("a", (("app", "db"),)), ["mesh", "namespace", None]),
        (Workload("b", WEB_LABELS), ["mesh", None, None]),
        (Workload("a", WEB_LABELS, is_gateway=True), ["mesh", "namespace", "web"]),
        (Workload(ROOT, WEB_LABELS), ["mesh", None, None]),
        (Workload("", WEB_LABELS), [None, None, None]),
    ],
)
def test_objects_of_other_namespaces_and_labels_are_not_for_a_workload(
    workload: Workload, wanted: list[str | None], model_of: Models
) -> None:
    assert names(found(model_of, workload, MESH, NAMESPACE, WEB)) == wanted


def test_in_the_root_namespace_a_selector_counts_for_its_own_workloads_alone(
    model_of: Models,
) -> None:
    of_root = proxy_config("root-web", ROOT, spec(7, selector="app: web"))
    assert names(found(model_of, Workload("a", WEB_LABELS), of_root)) == [None, None, None]
    assert names(found(model_of, Workload(ROOT, WEB_LABELS), MESH, of_root)) == [
        "mesh",
        None,
        "root-web",
    ]


def test_a_selector_without_labels_is_for_no_workload(model_of: Models) -> None:
    empty = proxy_config("empty", "a", "selector: {matchLabels: {}}, concurrency: 5")
    assert names(found(model_of, Workload("a", WEB_LABELS), empty)) == [None, None, None]
    assert names(found(model_of, Workload("a"), empty, NAMESPACE)) == [None, "namespace", None]


def test_variables_that_no_process_can_have_are_left_out(model_of: Models) -> None:
    odd = "environmentVariables: {'': a, 'A=B': a, C: \"a\\0b\", D: d}"
    settings = found(model_of, Workload("a"), proxy_config("odd", "a", odd)).settings
    assert settings == StartSettings(None, (("D", "d"),))
