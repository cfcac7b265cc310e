"""YAML of other tools that Istio takes: it is taken here too, or let pass and reported."""

from collections.abc import Sequence

import pytest

from istio_config import FileContent, read_content
from istio_config.kinds.mesh_config import MESH_CONFIG, MeshConfigSpec
from istio_config.kinds.service_entry import ServiceEntrySpec


def read(text: str) -> FileContent:
    return read_content(text.encode(), file="x.yaml")


def said(found: Sequence[object]) -> list[str]:
    return [str(each) for each in found]


def test_null_in_metadata_is_absent_as_helm_writes_it() -> None:
    found = read(
        "apiVersion: v1\nkind: Service\n"
        "metadata: {name: a, namespace: null, labels: null, annotations: null}\n"
        "spec: {ports: [{port: 80}]}"
    )

    assert found.problems == ()
    (one,) = found.objects
    assert (one.namespace, one.labels, one.annotations) == ("default", (), ())


def test_bits_below_the_prefix_of_a_range_do_not_count() -> None:
    found = read(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\n"
        "spec: {hosts: [a.example], addresses: [10.1.2.3/16], ports: [{number: 80, name: http}]}"
    )

    assert found.problems == ()
    assert isinstance(found.objects[0].spec, ServiceEntrySpec)


@pytest.mark.parametrize(
    ("api", "kind", "words"),
    [
        ("gateway.networking.k8s.io/v1", "UDPRoute", "Istio does not serve either: let pass"),
        ("gateway.networking.x-k8s.io/v1alpha1", "XBackendTrafficPolicy", "let pass"),
        ("install.istio.io/v1alpha1", "IstioOperator", "--mesh-config names: let pass"),
    ],
)
def test_kinds_that_no_proxy_is_given_anything_of_are_let_pass(
    api: str, kind: str, words: str
) -> None:
    found = read(f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{a: b}}")

    assert (found.objects, found.problems) == ((), ())
    (note,) = said(found.notes)
    assert note.startswith(f"x.yaml:2: kind: {kind}")
    assert words in note


def test_an_operator_has_the_mesh_config_where_one_is_asked_for() -> None:
    text = b"""apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  meshConfig:
    trustDomain: shop.example
    rootNamespace: 7
"""
    found = read_content(text, file="x.yaml", single=MESH_CONFIG)
    assert said(found.problems) == [
        "x.yaml:6: rootNamespace: expected text, found the number 7; put it in quotes"
    ]

    found = read_content(text.replace(b" 7", b" mesh"), file="x.yaml", single=MESH_CONFIG)
    assert found.problems == ()
    (one,) = found.objects
    assert isinstance(one.spec, MeshConfigSpec)
    assert (one.spec.trust_domain, one.spec.root_namespace) == ("shop.example", "mesh")


def test_values_of_proxy_metadata_are_texts() -> None:
    text = b"defaultConfig: {proxyMetadata: {ISTIO_DUAL_STACK: false, A: b, N: 10}}"

    found = read_content(text, file="x.yaml", single=MESH_CONFIG)

    at = "x.yaml:1: defaultConfig.proxyMetadata"
    assert said(found.problems) == [
        f"{at}.ISTIO_DUAL_STACK: expected text, found false; put it in quotes",
        f"{at}.N: expected text, found the number 10; put it in quotes",
    ]


@pytest.mark.parametrize(
    ("api", "kind", "spec"),
    [
        ("v1", "Namespace", ""),
        ("v1", "Node", ""),
        ("gateway.networking.k8s.io/v1", "GatewayClass", "spec: {controllerName: a.example/b}"),
    ],
)
def test_what_is_in_no_namespace_is_reported_without_one(api: str, kind: str, spec: str) -> None:
    one = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\n{spec}\n"

    found = read(f"{one}---\n{one}")

    (twice,) = said(found.problems)
    assert f"a second {kind} a, the first is at x.yaml:1" in twice


def test_a_socket_without_a_file_is_an_address() -> None:
    found = read(
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: a}\n"
        "spec: {address: 'unix://@name'}"
    )

    assert found.problems == ()
