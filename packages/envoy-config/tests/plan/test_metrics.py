"""The metrics of a proxy, by Telemetry objects of the mesh, of namespaces and workloads."""

import pytest

from envoy_config.plan._proxy import Proxy
from istio_config.kinds.telemetry import PROXY_METRICS, IstioMetric
from mesh_model import MeshModel
from proxies import proxy_of
from telemetry_objects import ROOT, Build, found, proxy, telemetry
from xds_server import Node

Tags = dict[str, str]
TagsByMetric = dict[IstioMetric, Tags]
ALL: TagsByMetric = {each: {} for each in PROXY_METRICS}
MESH = "---\napiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {%s}\n"


def metrics_of(model: MeshModel, of: Proxy | None = None) -> tuple[TagsByMetric, TagsByMetric]:
    """Return what both sides of a proxy count, with the tags that are changed."""
    of_both = found(model, of)
    if of_both is None:
        return {}, {}
    client, server = (
        {each.kind: dict(each.changed_tags) for each in side.metrics}
        for side in (of_both.client, of_both.server)
    )
    return client, server


def changed(*overrides: str) -> str:
    listed = ", ".join(f"{{{each}}}" for each in overrides)
    return f"metrics: [{{overrides: [{listed}]}}]"


def changed_tags(*tags: str) -> str:
    return changed(f"tagOverrides: {{{', '.join(tags)}}}")


def without(*gone: IstioMetric) -> TagsByMetric:
    return {each: tags for each, tags in ALL.items() if each not in gone}


def with_tags(**tags: str) -> TagsByMetric:
    return dict.fromkeys(PROXY_METRICS, tags)


@pytest.mark.parametrize(
    ("fields", "objects", "client", "server"),
    [
        pytest.param("", [], ALL, ALL, id="by default"),
        pytest.param("defaultProviders: {metrics: []}", [], {}, {}, id="no default provider"),
        pytest.param("defaultProviders: {metrics: [prometheus]}", [], ALL, ALL, id="named"),
        pytest.param("defaultProviders: {metrics: [stackdriver]}", [], {}, {}, id="another"),
        pytest.param(
            "extensionProviders: [{name: mine, prometheus: {}}], defaultProviders: {metrics: []}",
            [("metrics: [{providers: [{name: Mine}]}]", ROOT, "")],
            ALL,
            ALL,
            id="by an object with a provider of the mesh's own",
        ),
        pytest.param(
            "defaultProviders: {metrics: []}",
            [(changed("disabled: false"), ROOT, "")],
            {},
            {},
            id="an object that names none, nor does the mesh",
        ),
        pytest.param(
            "", [(changed("disabled: true"), "default", "")], {}, {}, id="off in a namespace"
        ),
        pytest.param(
            "",
            [
                (changed("disabled: true"), ROOT, ""),
                (changed("disabled: false"), "default", "{app: w}"),
            ],
            ALL,
            ALL,
            id="off in the mesh, on at a workload",
        ),
        pytest.param(
            "",
            [(changed("match: {metric: ALL_METRICS, mode: CLIENT}, disabled: true"), ROOT, "")],
            {},
            ALL,
            id="off at one side",
        ),
        pytest.param(
            "",
            [
                (
                    changed(
                        "match: {metric: REQUEST_SIZE}, disabled: true",
                        "match: {customMetric: istio_response_bytes, mode: SERVER}, disabled: true",
                    ),
                    ROOT,
                    "",
                ),
                (
                    changed("match: {metric: REQUEST_SIZE, mode: SERVER}, disabled: false"),
                    "default",
                    "",
                ),
            ],
            without(IstioMetric.REQUEST_SIZE),
            without(IstioMetric.RESPONSE_SIZE),
            id="some off, one on again",
        ),
        pytest.param(
            "",
            [
                (
                    changed_tags(
                        "source_app: {operation: REMOVE}",
                        "host: {value: request.host}",
                        "zone: {value: \"'100%'\"}",
                    ),
                    ROOT,
                    "",
                ),
                (changed_tags("host: {value: \"node.metadata['HOST']\"}"), "default", ""),
            ],
            with_tags(source_app="", host="%CEL(xds.node.metadata['HOST'])%", zone="100%%"),
            with_tags(source_app="", host="%CEL(xds.node.metadata['HOST'])%", zone="100%%"),
            id="tags add up",
        ),
        pytest.param(
            "",
            [
                (
                    changed_tags(
                        "a: {value: 'string(1)'}",
                        "b: {value: nothing.known}",
                        "c: {value: '1 % 2 == 0'}",
                        "d-e: {value: '1'}",
                    ),
                    ROOT,
                    "",
                )
            ],
            ALL,
            ALL,
            id="tags that Envoy can't make are left out",
        ),
    ],
)
def test_metrics_are_what_the_mesh_and_its_objects_come_to(
    fields: str,
    objects: list[tuple[str, str, str]],
    client: TagsByMetric,
    server: TagsByMetric,
    model_of: Build,
) -> None:
    texts = [telemetry(f"t{at}", *each) for at, each in enumerate(objects)]

    assert metrics_of(model_of(MESH % fields + "".join(texts))) == (client, server)


def test_an_envoy_without_the_logger_makes_none(model_of: Build) -> None:
    model = model_of(MESH % "")
    node = "sidecar~127.0.0.9~w.default~default.svc.cluster.local"

    for version, able in (("1.36.4", False), ("1.37.0", True), ("1.40.0", True)):
        old = proxy_of(Node(id=node, user_agent=f"envoy/{version}"))
        assert metrics_of(model, old) == ((ALL, ALL) if able else ({}, {}))
    assert metrics_of(model, proxy(GENERATOR="grpc")) == ({}, {})
