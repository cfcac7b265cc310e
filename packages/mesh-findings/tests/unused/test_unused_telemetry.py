"""Parts of Telemetry objects without effect are reported, with their places."""

from collections.abc import Callable

import pytest

from mesh_findings import review
from mesh_model import MeshModel

Build = Callable[..., MeshModel]

MESH = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: als, namespace: far}
spec:
  hosts: [als.example.com]
  resolution: STATIC
  exportTo: [., near]
  ports: [{number: 80, name: grpc, protocol: GRPC}, {number: 90, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
---
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  extensionProviders:
  - {name: mine, prometheus: {}}
  - {name: zipkin, zipkin: {service: als.example.com, port: 80}}
  - {name: lost, zipkin: {service: als.example.com, port: 81}}
  - {name: als, envoyHttpAls: {service: far/als.example.com, port: 80}}
  - {name: http, envoyOtelAls: {service: als.example.com, port: 90}}
  - {name: otel, opentelemetry: {service: als.example.com, port: 90, http: {path: /v1/traces}}}
  - {name: otel-grpc, opentelemetry: {service: als.example.com, port: 90}}
  - {name: lost-als, envoyHttpAls: {service: near/als.example.com, port: 80}}
"""
TELEMETRY = """\
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{spec}}}
"""
LOGS = "accessLogging: [{{providers: [{{name: {}}}]}}]"
METRICS = "metrics: [{{providers: [{{name: {}}}]}}]"
TRACES = "tracing: [{{providers: [{{name: {}}}]}}]"


def reported(model: MeshModel) -> list[tuple[str, str]]:
    return [(each.field, each.message) for each in review(model).problems]


@pytest.mark.parametrize(
    ("spec", "namespace", "wanted"),
    [
        (LOGS.format("Envoy"), "near", None),
        (LOGS.format("ALS"), "near", None),
        (LOGS.format("als"), "istio-system", None),
        (LOGS.format("als"), "elsewhere", "which is not exported to namespace elsewhere"),
        (LOGS.format("none"), "near", "the mesh config has no extension provider none; there are"),
        (LOGS.format("zipkin"), "near", "takes no access logs"),
        (LOGS.format("lost-als"), "near", "there is no such service"),
        (TRACES.format("zipkin"), "near", None),
        (TRACES.format("envoy"), "near", "the mesh config has no extension provider envoy"),
        (TRACES.format("als"), "near", "takes no traces"),
        (TRACES.format("lost"), "near", "is at als.example.com, port 81, and there is no such"),
        (TRACES.format("otel"), "near", None),
        (TRACES.format("otel-grpc"), "near", "its port 90 declares the protocol HTTP, not GRPC"),
        (LOGS.format("http"), "near", "its port 90 declares the protocol HTTP, not GRPC"),
        (METRICS.format("Prometheus"), "near", None),
        (METRICS.format("mine"), "near", None),
        (METRICS.format("zipkin"), "near", "takes no metrics"),
        (METRICS.format("stackdriver"), "near", "the mesh config has no extension provider stackd"),
        ("accessLogging: [{disabled: true}]", "near", None),
        ("accessLogging: [{}]", "near", "names no provider"),
    ],
)
def test_a_provider_that_nothing_can_be_sent_to_is_reported(
    spec: str, namespace: str, wanted: str | None, model_of: Build
) -> None:
    found = reported(model_of(MESH + TELEMETRY.format(name="a", namespace=namespace, spec=spec)))

    if wanted is None:
        assert found == []
    else:
        ((field, message),) = found
        assert field.startswith(("spec.accessLogging", "spec.tracing", "spec.metrics"))
        assert wanted in message


def test_of_two_for_a_whole_namespace_the_newer_one_is_reported(model_of: Build) -> None:
    texts = [
        TELEMETRY.format(name=name, namespace="near", spec=LOGS.format("envoy"))
        for name in ("a", "b")
    ]

    ((field, message),) = reported(model_of(MESH + "".join(texts)))

    assert field == "spec"
    assert message.startswith("the Telemetry a is for all workloads of the namespace, too")


def test_providers_of_wider_objects_and_of_the_mesh_config_are_enough(model_of: Build) -> None:
    filtered = "accessLogging: [{filter: {expression: 'true'}}]"
    own = TELEMETRY.format(name="a", namespace="near", spec=filtered)
    of_mesh = TELEMETRY.format(name="m", namespace="istio-system", spec=LOGS.format("envoy"))
    defaults = "  defaultProviders: {accessLogging: [envoy]}\n"

    assert reported(model_of(MESH + own + of_mesh)) == []
    assert reported(model_of(MESH + defaults + own)) == []
