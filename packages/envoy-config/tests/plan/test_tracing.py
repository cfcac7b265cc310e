"""The traces of a proxy, by Telemetry objects of the mesh, of namespaces and workloads."""

import pytest

from envoy_config.plan._proxy import Proxy
from envoy_config.plan.resolved._telemetry import Tag, Tracing
from envoy_config.plan.telemetry._telemetry import telemetry_of
from envoy_config.plan.telemetry._workload_tags import workload_tags
from mesh_model import MeshModel
from proxies import proxy_of
from telemetry_objects import ALS, ROOT, SERVICE, Build, found, mesh, proxy, telemetry
from xds_server import Node


def traced(model: MeshModel, of: Proxy | None = None) -> tuple[Tracing | None, Tracing | None]:
    telemetry = found(model, of)
    assert telemetry is not None
    return telemetry.client.tracing, telemetry.server.tracing


ZIPKIN = "tracing: [{providers: [{name: zipkin}]}]"


@pytest.mark.parametrize(
    ("objects", "sampling"),
    [
        ([ZIPKIN], (1.0, 1.0)),
        (["tracing: [{providers: [{name: ZIPKIN}, {name: none}]}]"], (1.0, 1.0)),
        (["tracing: [{providers: [{name: none}]}]"], (None, None)),
        (["tracing: [{providers: [{name: files}]}]"], (None, None)),
        (["tracing: [{providers: [{name: lost-zipkin}]}]"], (None, None)),
        (["tracing: [{randomSamplingPercentage: 9}]"], (None, None)),
        ([ZIPKIN, "tracing: [{randomSamplingPercentage: 0}]"], (0.0, 0.0)),
        (
            [ZIPKIN, "tracing: [{match: {mode: CLIENT}, randomSamplingPercentage: 50}]"],
            (50.0, 1.0),
        ),
        ([ZIPKIN, "tracing: [{disableSpanReporting: true}]"], (None, None)),
        (
            [
                ZIPKIN,
                "tracing: [{disableSpanReporting: true, match: {mode: SERVER}}]",
            ],
            (1.0, None),
        ),
        (
            [
                ZIPKIN,
                "tracing: [{disableSpanReporting: true}]",
                "tracing: [{disableSpanReporting: false}]",
            ],
            (1.0, 1.0),
        ),
    ],
)
def test_the_last_that_sets_something_of_traces_decides_on_it(
    objects: list[str], sampling: tuple[float | None, float | None], model_of: Build
) -> None:
    places = [(ROOT, ""), ("default", ""), ("default", "{app: w}")]
    texts = [telemetry(f"t{index}", spec, *places[index]) for index, spec in enumerate(objects)]
    model = model_of(SERVICE + mesh() + "".join(texts))

    assert tuple(each.sampling if each else None for each in traced(model)) == sampling


def test_tags_of_a_level_replace_those_of_wider_ones(model_of: Build) -> None:
    wide = "tracing: [{providers: [{name: datadog}], customTags: {a: {literal: {value: b}}}}]"
    narrow = (
        "tracing: [{enableIstioTags: false, useRequestIdForTraceSampling: false, customTags: {"
        "c: {environment: {name: D, defaultValue: e}}, f: {header: {name: g}}, "
        "h: {formatter: {value: '%PROTOCOL%'}}}}]"
    )
    config = mesh(defaultConfig={"tracing": {"maxPathTagLength": 7, "sampling": 3}})
    model = model_of(SERVICE + config + telemetry("a", wide, ROOT) + telemetry("b", narrow))

    tracing, _ = traced(model)

    assert tracing is not None
    assert tracing.provider is not None
    assert tracing.provider.service == ALS
    assert tracing._replace(provider=None) == Tracing(
        sampling=3.0,
        tags=(
            Tag("c", "environment", "D", "e"),
            Tag("f", "header", "g"),
            Tag("h", "formatter", "%PROTOCOL%"),
        ),
        istio_tags=(),
        max_path_length=7,
        samples_by_request_id=False,
        service_name="w.default",
    )


def test_the_length_of_tags_is_the_providers_own_before_the_proxys(model_of: Build) -> None:
    config = mesh(defaultConfig={"tracing": {"maxPathTagLength": 7}})
    tracing, _ = traced(model_of(SERVICE + config + telemetry("a", ZIPKIN)))

    assert tracing is not None
    assert tracing.max_path_length == 9
    assert tracing.service_name == ""


def test_a_tracer_of_the_bootstrap_acts_where_no_provider_is_named(model_of: Build) -> None:
    tags = {"a": {"literal": {"value": "b"}}, "c": {"header": {"name": "d"}}}
    own = proxy(PROXY_CONFIG={"tracing": {"zipkin": {"address": "z:9411"}, "customTags": tags}})
    tags_wanted = (Tag("a", "literal", "b"), Tag("c", "header", "d"))
    wanted = Tracing(tags=tags_wanted, istio_tags=workload_tags(own))

    assert traced(model_of(SERVICE + mesh()), own) == (wanted, wanted)
    assert found(model_of(SERVICE + mesh(enableTracing=False)), own) is None
    named = mesh(defaultProviders={"tracing": ["zipkin"]}, enableTracing=False)
    client, _ = traced(model_of(SERVICE + named), own)
    assert client is not None
    assert client.provider is not None
    assert client.tags == wanted.tags


def test_an_envoy_that_makes_no_tags_by_formats_is_given_their_values(model_of: Build) -> None:
    spec = (
        "tracing: [{providers: [{name: zipkin}], customTags: {a: {formatter: {value: b}},"
        " c: {literal: {value: d}}}}]"
    )
    model = model_of(SERVICE + mesh() + telemetry("a", spec))
    old = proxy_of(
        Node(
            id="sidecar~127.0.0.9~w.default~default.svc.cluster.local",
            metadata={"LABELS": {"service.istio.io/canonical-name": "shop"}, "CLUSTER_ID": "k"},
            user_agent="envoy/1.36.4",
        )
    )

    tracing, _ = traced(model, old)

    assert tracing is not None
    assert tracing.tags == (Tag("c", "literal", "d"),)
    assert {each.name: each.value for each in tracing.istio_tags} == {
        "istio.canonical_revision": "latest",
        "istio.canonical_service": "shop",
        "istio.cluster_id": "k",
        "istio.namespace": "default",
    }
    assert {each.kind for each in tracing.istio_tags} == {"literal"}


def test_spans_go_to_no_service_that_the_proxy_has_no_cluster_of(model_of: Build) -> None:
    model = model_of(SERVICE + mesh() + telemetry("a", ZIPKIN))

    telemetry_found = telemetry_of(proxy(), model, dict)

    assert telemetry_found is not None
    assert telemetry_found.client.tracing is None
