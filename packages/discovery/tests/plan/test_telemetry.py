"""The logs and traces of a proxy, by Telemetry objects of the mesh, of namespaces and workloads."""

from collections.abc import Callable

import pytest
import yaml

from mesh_discovery.config.kinds.telemetry._spec import WorkloadMode
from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._provider_services import ProviderService
from mesh_discovery.plan._proxy import Proxy, parse_proxy
from mesh_discovery.plan.telemetry._access_logs import mesh_logs
from mesh_discovery.plan.telemetry._telemetry import settings_of, telemetry_of
from mesh_discovery.plan.telemetry._values import (
    AccessLog,
    FileTarget,
    JsonLine,
    OtelTarget,
    ServiceTarget,
    Tag,
    Telemetry,
    TextLine,
    Tracing,
)
from mesh_discovery.plan.telemetry._workload_tags import workload_tags
from xds_server import Node

Build = Callable[..., MeshModel]

PROVIDERS = """
- name: files
  envoyFileAccessLog: {path: /var/log/a}
- name: others
  envoyFileAccessLog: {path: /var/log/b, logFormat: {text: "%PROTOCOL%"}, omitEmptyValues: true}
- name: labels
  envoyFileAccessLog: {logFormat: {labels: {a: "%PROTOCOL%"}}}
- name: requests
  envoyHttpAls: {service: als.example.com, port: 80, logName: l}
- name: connections
  envoyTcpAls: {service: default/als.example.com, port: 80}
- name: records
  envoyOtelAls: {service: als.example.com, port: 80, logFormat: {text: t, labels: {a: b}}}
- name: lost
  envoyOtelAls: {service: none.example.com, port: 80}
- name: zipkin
  zipkin: {service: als.example.com, port: 80, maxTagLength: 9}
- name: lost-zipkin
  zipkin: {service: none.example.com, port: 80}
- name: datadog
  datadog: {service: als.example.com, port: 80}
"""

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: als, namespace: default}
spec:
  hosts: [als.example.com]
  resolution: STATIC
  ports: [{number: 80, name: grpc, protocol: GRPC}]
  endpoints: [{address: 10.0.0.1}]
"""
ALS = ProviderService(
    "outbound|80||als.example.com", "als.example.com", ("default", "als.example.com")
)


def telemetry(name: str, spec: str, namespace: str = "default", labels: str = "") -> str:
    selector = f"  selector: {{matchLabels: {labels}}}\n" if labels else ""
    return (
        "---\napiVersion: telemetry.istio.io/v1\nkind: Telemetry\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n{selector}  {spec}\n"
    )


def mesh(**fields: object) -> str:
    spec = {"extensionProviders": yaml.safe_load(PROVIDERS), **fields}
    text = yaml.safe_dump({"spec": spec}, sort_keys=False)
    return f"---\napiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n{text}"


def proxy(kind: str = "sidecar", **metadata: object) -> Proxy:
    return parse_proxy(
        Node(
            id=f"{kind}~127.0.0.9~w.default~default.svc.cluster.local",
            cluster="w.default",
            user_agent="envoy/1.40.0",
            metadata={"LABELS": {"app": "w"}, **metadata},  # type: ignore[dict-item]
        )
    )


def found(model: MeshModel, of: Proxy | None = None) -> Telemetry | None:
    known = {service.host: service for service in model.services}
    return telemetry_of(of or proxy(), model, lambda: known)


def logged(model: MeshModel, mode: str) -> dict[str, str]:
    """Return the files that one side logs to, with the expressions."""
    telemetry = found(model)
    assert telemetry is not None
    side = telemetry.client if mode == WorkloadMode.CLIENT else telemetry.server
    assert side.of_requests == side.of_connections
    return {
        each.target.path: each.expression
        for each in side.of_requests
        if isinstance(each.target, FileTarget)
    }


SIDES = (
    "accessLogging: [{match: {mode: SERVER}, providers: [{name: files}]},"
    " {match: {mode: CLIENT}, providers: [{name: others}]}]"
)
A, B = "/var/log/a", "/var/log/b"
ROOT = "istio-system"


@pytest.mark.parametrize(
    ("objects", "client", "server"),
    [
        ([("accessLogging: [{providers: [{name: files}]}]", ROOT, "")], {A: ""}, {A: ""}),
        ([("accessLogging: [{providers: [{name: FILES}]}]", ROOT, "")], {A: ""}, {A: ""}),
        ([("accessLogging: [{providers: [{name: files}]}]", "other", "")], None, None),
        ([("accessLogging: [{providers: [{name: files}]}]", ROOT, "{app: w}")], None, None),
        ([("accessLogging: [{}]", "default", "")], {}, {}),
        (
            # The last level that names providers decides which are in use.
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{providers: [{name: others}]}]", "default", ""),
            ],
            {B: ""},
            {B: ""},
        ),
        (
            # One without providers is about those of the one before.
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{filter: {expression: 'true'}}]", "default", ""),
            ],
            {A: "true"},
            {A: "true"},
        ),
        (
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{disabled: true}]", "default", ""),
            ],
            {},
            {},
        ),
        (
            # A workload's own comes last, whatever its name.
            [
                ("accessLogging: [{providers: [{name: files}]}]", ROOT, ""),
                ("accessLogging: [{disabled: true}]", "default", ""),
                ("accessLogging: [{disabled: false}]", "default", "{app: w}"),
            ],
            {A: ""},
            {A: ""},
        ),
        (
            # All that choose a workload are taken, the oldest first.
            [
                ("accessLogging: [{providers: [{name: files}]}]", "default", "{app: w}"),
                ("accessLogging: [{disabled: true, match: {mode: CLIENT}}]", "default", "{app: w}"),
            ],
            {},
            {A: ""},
        ),
        (
            # Only the oldest for a whole namespace is taken.
            [
                ("accessLogging: [{providers: [{name: files}]}]", "default", ""),
                ("accessLogging: [{disabled: true}]", "default", ""),
            ],
            {A: ""},
            {A: ""},
        ),
        (
            [
                (
                    SIDES,
                    "default",
                    "",
                )
            ],
            {B: ""},
            {A: ""},
        ),
        (
            # In one level, a provider that is out of use for the other mode stays so.
            [
                ("accessLogging: [{providers: [{name: files}, {name: others}]}]", ROOT, ""),
                (
                    "accessLogging: [{match: {mode: SERVER}, disabled: true}]",
                    "default",
                    "",
                ),
            ],
            {A: "", B: ""},
            {},
        ),
    ],
)
def test_the_last_word_on_logs_is_that_of_the_narrowest_level(
    objects: list[tuple[str, str, str]],
    client: dict[str, str] | None,
    server: dict[str, str] | None,
    model_of: Build,
) -> None:
    texts = [
        telemetry(f"t{index}", spec, namespace, labels)
        for index, (spec, namespace, labels) in enumerate(objects)
    ]
    model = model_of(SERVICE + mesh() + "".join(texts))

    if client is None or server is None:
        assert found(model) is None
        return
    assert logged(model, "CLIENT") == client
    assert logged(model, "SERVER") == server


def test_default_providers_log_where_no_object_names_any(model_of: Build) -> None:
    defaults = mesh(defaultProviders={"accessLogging": ["files"]})
    filtered = telemetry("t", "accessLogging: [{filter: {expression: 'true'}}]")

    assert logged(model_of(SERVICE + defaults), "CLIENT") == {A: ""}
    assert logged(model_of(SERVICE + defaults + filtered), "CLIENT") == {A: "true"}


def test_each_provider_is_resolved_and_they_are_sorted_by_name(model_of: Build) -> None:
    names = [
        "connections",
        "envoy",
        "files",
        "labels",
        "lost",
        "none",
        "others",
        "records",
        "requests",
        "zipkin",
    ]
    named = ", ".join(f"{{name: {each}}}" for each in names)
    own = telemetry("t", f"accessLogging: [{{providers: [{named}]}}]")
    config = mesh(accessLogEncoding="JSON")

    telemetry_found = found(model_of(SERVICE + config + own))

    assert telemetry_found is not None
    assert [each.target for each in telemetry_found.server.of_requests] == [
        ServiceTarget(ALS.cluster, ALS.authority, of_requests=False),
        FileTarget("/dev/stdout", JsonLine()),
        FileTarget(A, TextLine()),
        FileTarget("/dev/stdout", JsonLine('{"a": "%PROTOCOL%"}')),
        FileTarget(B, TextLine("%PROTOCOL%"), omits_empty=True),
        OtelTarget(ALS.cluster, ALS.authority, text="t", labels='{"a": "b"}'),
        ServiceTarget(ALS.cluster, ALS.authority, log_name="l"),
    ]


def test_a_mesh_without_telemetry_costs_nothing_and_logs_as_mesh_config_says(
    model_of: Build,
) -> None:
    model = model_of(SERVICE + mesh(accessLogFile=A, enableEnvoyAccessLogService=True))

    def known() -> dict[str, object]:
        raise AssertionError

    settings = settings_of(proxy(), model, known)  # type: ignore[arg-type]

    assert settings.telemetry is None
    logs = mesh_logs(model.mesh_config)
    service = "envoy_accesslog_service"
    assert logs.of_requests == (AccessLog(FileTarget(A)), AccessLog(ServiceTarget(service)))
    assert logs.of_connections == (
        AccessLog(FileTarget(A)),
        AccessLog(ServiceTarget(service, of_requests=False)),
    )


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
    old = parse_proxy(
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
