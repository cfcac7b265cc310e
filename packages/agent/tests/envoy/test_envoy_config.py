"""What of Istio's settings reaches Envoy's bootstrap, and what is said of those that can't."""

import json
import logging
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import envoy_supervisor
from envoy_supervisor import JSON, ClientTls, MeshTls, StatsConfig, Target
from mesh_agent import AgentConfig, ConfigError

Load = Callable[..., AgentConfig]
Annotate = Callable[..., None]

COLLECTOR = Target(host="collector.example", port=4317)
SIMPLE = {"mode": "SIMPLE", "caCertificates": "roots.pem"}


@pytest.fixture
def annotate(workload: Path) -> Annotate:
    """Write the pod's annotations, those of Istio's sidecars by their last part."""

    def write(**annotations: str) -> None:
        pod = workload / "etc/istio/pod"
        pod.mkdir(parents=True, exist_ok=True)
        lines = (f"sidecar.istio.io/{name}={json.dumps(v)}\n" for name, v in annotations.items())
        (pod / "annotations").write_text("".join(lines))

    return write


@pytest.fixture(autouse=True)
def roots(workload: Path) -> Path:
    for name in ("roots.pem", "chain.pem", "key.pem"):
        (workload / name).touch()
    return workload / "roots.pem"


def bootstrap(config: AgentConfig) -> envoy_supervisor.BootstrapConfig:
    assert isinstance(config.envoy.bootstrap, envoy_supervisor.BootstrapConfig)
    return config.envoy.bootstrap


def proxy_config(**fields: JSON) -> dict[str, str]:
    return {"PROXY_CONFIG": json.dumps({"discoveryAddress": "127.0.0.1:15012", **fields})}


def problems_of(load: Load, environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(environ)
    return caught.value.problems


def test_a_machines_labels_give_a_locality_as_a_pods_do(load: Load) -> None:
    labels = {"ISTIO_METAJSON_LABELS": '{"topology.istio.io/locality": "r/z/s"}'}
    assert bootstrap(load(labels)).locality == envoy_supervisor.Locality(
        region="r", zone="z", sub_zone="s"
    )


def test_metrics_for_callers_with_a_certificate_have_listeners_if_asked_for(load: Load) -> None:
    plain = bootstrap(load({"ENVOY_SECURE_METRICS_PORT": "0"}))
    assert (plain.secure_prometheus_listener, plain.secure_metrics_listener) == (None, None)
    ports = {"ENVOY_SECURE_METRICS_PORT": "15091", "ENVOY_SECURE_MERGED_METRICS_PORT": "15092"}
    secure = bootstrap(load(ports))
    assert str(secure.secure_prometheus_listener) == "0.0.0.0:15091"
    assert str(secure.secure_metrics_listener) == "0.0.0.0:15092"
    assert secure.node_metadata["ENVOY_SECURE_METRICS_PORT"] == 15091


def test_metrics_for_this_machine_only_stay_there_unless_a_certificate_is_asked_for(
    load: Load,
) -> None:
    local = {"METRICS_LOCALHOST_ACCESS_ONLY": "true", "ENVOY_SECURE_METRICS_PORT": "15091"}
    rendered = bootstrap(load(local))
    assert str(rendered.prometheus_listener) == "127.0.0.1:15090"
    assert str(rendered.secure_prometheus_listener) == "0.0.0.0:15091"
    assert str(rendered.readiness_listener) == "0.0.0.0:15021"


@pytest.mark.parametrize(
    ("tracing", "expected"),
    [
        ({"sampling": 10.5, "customTags": {"a": {"literal": {"value": "b"}}}}, None),
        (
            {"zipkin": {"address": "collector.example:4317"}},
            envoy_supervisor.Zipkin(target=COLLECTOR),
        ),
        (
            {"datadog": {"address": "[::1]:8126"}},
            envoy_supervisor.Datadog(target=Target(host="::1", port=8126), service_name="web.shop"),
        ),
        (
            {"openTelemetry": {"address": "collector.example:4317"}, "tlsSettings": {"mode": 0}},
            envoy_supervisor.OpenTelemetry(target=COLLECTOR, service_name="web.shop"),
        ),
        (
            {"zipkin": {"address": "$(HOST_IP):9411"}},
            envoy_supervisor.Zipkin(target=Target(host="fd00::9", port=9411)),
        ),
        (
            {"zipkin": {"address": "[$(HOST_IP)]:9411"}},
            envoy_supervisor.Zipkin(target=Target(host="fd00::9", port=9411)),
        ),
    ],
)
def test_spans_go_where_the_proxy_config_says(
    load: Load, tracing: JSON, expected: envoy_supervisor.Tracing | None
) -> None:
    host = {"HOST_IP": "fd00::9", "ISTIO_META_WORKLOAD_NAME": "web"}
    assert bootstrap(load({**host, **proxy_config(tracing=tracing)})).tracing == expected


def test_a_control_plane_is_sent_the_proxy_config_without_what_it_can_not_know(load: Load) -> None:
    tracing: JSON = {"openTelemetry": {"address": "collector.example:4317"}, "sampling": 5}
    sent = bootstrap(load(proxy_config(tracing=tracing))).node_metadata["PROXY_CONFIG"]
    assert sent == {"discoveryAddress": "127.0.0.1:15012", "tracing": {"sampling": 5}}


def test_the_older_fields_of_collectors_still_count(load: Load) -> None:
    rendered = bootstrap(
        load(
            proxy_config(
                zipkinAddress="collector.example:4317",
                envoyMetricsServiceAddress="collector.example:4317",
                statsdUdpAddress="127.0.0.1:8125",
            )
        )
    )
    assert rendered.tracing == envoy_supervisor.Zipkin(target=COLLECTOR)
    assert rendered.metrics_service == envoy_supervisor.MetricsService(target=COLLECTOR)
    assert rendered.statsd == envoy_supervisor.Statsd(address="127.0.0.1", port=8125)


def test_a_statsd_that_has_no_address_is_left_out_as_in_istio(load: Load) -> None:
    assert bootstrap(load(proxy_config(statsdUdpAddress="no such host:8125"))).statsd is None
    assert bootstrap(load(proxy_config(statsdUdpAddress="localhost:8125"))).statsd is not None


@pytest.mark.parametrize(
    ("settings", "server_name", "files"),
    [
        (SIMPLE, "collector.example", ("roots.pem",)),
        ({**SIMPLE, "sni": "other.example"}, "other.example", ("roots.pem",)),
        ({**SIMPLE, "subjectAltNames": ["other.example"]}, "other.example", ("roots.pem",)),
        (
            {**SIMPLE, "mode": 2, "clientCertificate": "chain.pem", "privateKey": "key.pem"},
            "collector.example",
            ("roots.pem", "chain.pem", "key.pem"),
        ),
    ],
)
def test_tls_to_a_collector_is_configured_from_files(
    load: Load, workload: Path, settings: JSON, server_name: str, files: tuple[str, ...]
) -> None:
    service: JSON = {"address": "collector.example:4317", "tlsSettings": settings}
    config = load(proxy_config(envoyAccessLogService=service))
    paths = tuple(workload / name for name in files)
    tls = ClientTls(
        server_name=server_name,
        roots=paths[0],
        certificate=paths[1] if len(paths) > 1 else None,
        private_key=paths[2] if len(paths) > 1 else None,
    )
    logs = envoy_supervisor.AccessLogService(target=COLLECTOR, tls=tls)
    assert bootstrap(config).access_log_service == logs
    assert config.envoy.watched_files == paths


def test_tls_to_a_collector_inside_the_mesh_checks_who_it_is(load: Load) -> None:
    who = "spiffe://cluster.local/ns/monitoring/sa/collector"
    tls = {"mode": "ISTIO_MUTUAL", "subjectAltNames": [who], "sni": "collector"}
    service: JSON = {"address": "collector.example:4317", "tlsSettings": tls}
    metrics = bootstrap(load(proxy_config(envoyMetricsService=service))).metrics_service
    assert metrics is not None
    assert metrics.tls == MeshTls(identities=(who,), server_name="collector")


def test_loads_are_reported_to_the_service_that_is_named(load: Load) -> None:
    source = {
        "api_type": "GRPC",
        "grpc_services": [{"google_grpc": {"target_uri": "collector.example:4317"}}],
    }
    for environ in (
        {"ISTIO_META_LOAD_STATS_CONFIG_JSON": json.dumps(source)},
        {"ISTIO_METAJSON_LOADS": json.dumps({"LOAD_STATS_CONFIG_JSON": source})},
        proxy_config(proxyMetadata={"ISTIO_META_LOAD_STATS_CONFIG_JSON": json.dumps(source)}),
    ):
        expected = envoy_supervisor.LoadReportingService(target=COLLECTOR)
        assert bootstrap(load(environ)).load_reporting == expected


@pytest.mark.parametrize(
    "service",
    [
        {"envoy_grpc": {"cluster_name": "xds-grpc"}},
        {"envoyGrpc": {"clusterName": "xds-grpc"}},
    ],
)
def test_loads_are_reported_to_the_control_plane_by_the_relay(load: Load, service: JSON) -> None:
    source = json.dumps({"api_type": "GRPC", "grpc_services": [service]})
    config = load({"ISTIO_META_LOAD_STATS_CONFIG_JSON": source})
    assert bootstrap(config).load_reporting == envoy_supervisor.LoadReportingService()


def test_statistics_to_keep_come_from_the_proxy_config(load: Load) -> None:
    matcher = {
        "inclusionPrefixes": ["http.{pod_ip}_"],
        "inclusionSuffixes": ["cx_total"],
        "inclusionRegexps": ["a,b.*"],
    }
    stats = bootstrap(load(proxy_config(proxyStatsMatcher=matcher, extraStatTags=["team"]))).stats
    assert stats == StatsConfig(
        inclusion_prefixes=("http.127.0.9.1_",),
        inclusion_suffixes=("cx_total",),
        inclusion_regexes=("a,b.*",),
        extra_tags=("team",),
    )


def test_annotations_win_over_the_proxy_config_but_tags_add_up(
    load: Load, annotate: Annotate
) -> None:
    annotate(
        statsInclusionPrefixes="cluster.outbound, http.inbound",
        statsInclusionRegexps="listener.*",
        extraStatTags="zone",
        statsFlushInterval="2s",
        statsEvictionInterval="1m",
        statsHistogramBuckets='{"istio": [0.5, 10]}',
    )
    matcher: JSON = {"inclusionPrefixes": ["x"], "inclusionSuffixes": ["cx_total"]}
    stats = bootstrap(load(proxy_config(proxyStatsMatcher=matcher, extraStatTags=["team"]))).stats
    assert stats == StatsConfig(
        inclusion_prefixes=("cluster.outbound", "http.inbound"),
        inclusion_suffixes=("cx_total",),
        inclusion_regexes=("listener.*",),
        extra_tags=("team", "zone"),
        flush_interval_s=2,
        eviction_interval_s=60,
        histogram_buckets={"istio": (0.5, 10)},
    )


def test_the_limit_of_connections_has_istios_order_of_sources(load: Load) -> None:
    runtime: dict[str, JSON] = {
        "runtimeValues": {"overload.global_downstream_max_connections": "30"}
    }
    metadata = {"ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS": "20"}
    settings: dict[str, JSON] = {
        "connectionSettings": {"globalDownstreamConnectionLimit": 10, "profile": "EDGE"}
    }
    lowest = bootstrap(load(proxy_config(**runtime)))
    assert lowest.max_connections is None, "left to the runtime values"
    assert lowest.runtime == runtime["runtimeValues"]
    assert bootstrap(load({**metadata, **proxy_config(**runtime)})).max_connections == 20
    highest = load({**metadata, **proxy_config(**runtime, **settings)})
    assert bootstrap(highest).max_connections == 10


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", None),
        ("200Mi", 200 << 20),
        ("1Gi", 1 << 30),
        ("1.5Gi", 3 << 29),
        ("500M", 500_000_000),
        ("64000000", 64_000_000),
    ],
)
def test_envoys_heap_is_limited_only_if_asked_for(load: Load, text: str, size: int | None) -> None:
    assert bootstrap(load({"MESH_AGENT_ENVOY_MAX_HEAP": text})).max_heap_bytes == size


def test_envoys_heap_may_follow_the_memory_limit(load: Load) -> None:
    size = bootstrap(load({"MESH_AGENT_ENVOY_MAX_HEAP": "auto"})).max_heap_bytes
    allowed = envoy_supervisor.memory_limit()
    assert size is None if allowed is None else size is not None and size < allowed


@pytest.mark.parametrize(
    ("flags", "expected", "ignored"),
    [
        (("info,upstream:debug", ""), ("info", "upstream:debug"), []),
        (("warning,misc:error", "upstream:debug"), ("warning", "misc:error"), []),
        (("info,a:b:c,misc:error", ""), ("info", "misc:error"), ["a:b:c"]),
        (("info, a:b:c", "upstream:debug"), ("info", ""), ["a:b:c"]),
        (("info", "upstream:debug,:error,misc"), ("info", "upstream:debug"), [":error", "misc"]),
    ],
)
def test_log_levels_by_component_of_another_shape_are_passed_over(
    load: Load,
    caplog: pytest.LogCaptureFixture,
    flags: tuple[str, str],
    expected: tuple[str, str],
    ignored: list[str],
) -> None:
    with caplog.at_level(logging.WARNING, "mesh_agent"):
        envoy = load(proxy_log_level=flags[0], proxy_component_log_level=flags[1]).envoy
    assert (envoy.log_level, envoy.component_log_level) == expected
    assert [record.__dict__["item"] for record in caplog.records] == ignored


TRACING = "PROXY_CONFIG: tracing"


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("tracing", {"zipkin": {}}, f"{TRACING}.zipkin.address is missing"),
        ("tracing", {"zipkin": {"address": 5}}, "zipkin.address is 5, it must be text"),
        ("tracing", {"zipkin": {"address": "z"}}, f"{TRACING}.zipkin.address: address 'z' is not"),
        ("tracing", {"zipkin": "z:1"}, f"{TRACING}.zipkin is 'z:1', it must be an object"),
        ("tracing", {"zipkin": {"address": "$(HOST_IP):1"}}, "HOST_IP is '', which is not an IP"),
        ("tracing", {"jaeger": {}}, f"{TRACING}.jaeger is not known, there are zipkin"),
        ("tracing", {"sampling": 101}, "sampling is 101, it must be a number between 0 and 100"),
        ("tracing", {"zipkin": {}, "datadog": {}}, "datadog can't be given beside zipkin"),
        ("tracing", {"lightstep": {}}, f"{TRACING}: tracing by 'lightstep' is no longer part of"),
        ("zipkinAddress", "zipkin", "PROXY_CONFIG: zipkinAddress: address 'zipkin' is not host"),
        ("statsdUdpAddress", "a:x", "PROXY_CONFIG: statsdUdpAddress: address 'a:x' is not"),
        ("proxyStatsMatcher", {"inclusionPrefixes": "a"}, "is 'a', it must be a list of texts"),
        ("proxyStatsMatcher", {"inclusionRegexes": []}, "proxyStatsMatcher.inclusionRegexes is no"),
        ("extraStatTags", [1], "PROXY_CONFIG: extraStatTags is [1], it must be a list of texts"),
        ("runtimeValues", {"a": []}, "PROXY_CONFIG: runtimeValues.a is [], it must be text"),
        (
            "runtimeValues",
            {"overload.global_downstream_max_connections": "many"},
            "_max_connections is 'many', it must be a number of connections",
        ),
        (
            "connectionSettings",
            {"globalDownstreamConnectionLimit": 0},
            "connectionSettings.globalDownstreamConnectionLimit is 0, it must be a number of conn",
        ),
    ],
)
def test_a_wrong_field_is_one_sentence_with_its_place(
    load: Load, field: str, value: JSON, complaint: str
) -> None:
    problems = problems_of(load, proxy_config(**{field: value}))
    assert len(problems) == 1
    assert complaint in problems[0]
    assert problems[0].startswith("PROXY_CONFIG: ")


@pytest.mark.parametrize(
    ("tls", "complaint"),
    [
        ({"mode": "STRICT"}, "mode is 'STRICT', it must be one of DISABLE, SIMPLE"),
        ({"mode": True}, "mode is True, it must be one of"),
        ({**SIMPLE, "subjectAltName": "x"}, "subjectAltName is not known, there are mode, caCert"),
        ({"mode": []}, "mode is [], it must be one of"),
        ({"mode": "SIMPLE"}, "tlsSettings.caCertificates is missing"),
        ({**SIMPLE, "caCertificates": "none.pem"}, "is 'none.pem', which is not a file"),
        ({**SIMPLE, "mode": "MUTUAL", "privateKey": "key.pem"}, "clientCertificate is missing"),
        ({**SIMPLE, "insecureSkipVerify": True}, "the collector is always verified"),
        ({**SIMPLE, "credentialName": "x"}, "credentialName is only for gateways"),
        ({**SIMPLE, "subjectAltNames": ["a", "b"]}, "it must be the one name that sni says: 'a'"),
        ({"mode": "ISTIO_MUTUAL"}, "subjectAltNames is missing: name who the collector may be"),
    ],
)
def test_wrong_tls_to_a_collector_is_one_sentence(load: Load, tls: JSON, complaint: str) -> None:
    service: JSON = {"address": "collector.example:4317", "tlsSettings": tls}
    problems = problems_of(load, proxy_config(envoyMetricsService=service))
    assert len(problems) == 1
    assert complaint in problems[0]
    assert problems[0].startswith("PROXY_CONFIG: envoyMetricsService.tlsSettings.")


def test_an_address_needs_a_name_to_be_checked_by(load: Load) -> None:
    service: JSON = {"address": "192.0.2.7:4317", "tlsSettings": SIMPLE}
    problems = problems_of(load, proxy_config(envoyMetricsService=service))
    assert "sni is missing: 192.0.2.7 is no name" in problems[0]


def test_the_layer_a_field_came_from_is_named(load: Load, workload: Path) -> None:
    mesh = workload / "etc/istio/config/mesh"
    mesh.parent.mkdir(parents=True)
    mesh.write_text("defaultConfig: {tracing: {zipkin: {}}}")
    (problem,) = problems_of(load, {})
    assert problem == ("./etc/istio/config/mesh: defaultConfig: tracing.zipkin.address is missing")


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"ENVOY_SECURE_METRICS_PORT": "x"}, "ENVOY_SECURE_METRICS_PORT: 'x' is not a number"),
        ({"ENVOY_SECURE_METRICS_PORT": "70000"}, "is '70000', it must be a port"),
        (
            {"ENVOY_SECURE_METRICS_PORT": "15090"},
            "ENVOY_PROMETHEUS_PORT and ENVOY_SECURE_METRICS_PORT are both 15090",
        ),
        ({"ENVOY_STATUS_PORT": "15020"}, "statusPort and ENVOY_STATUS_PORT are both 15020"),
        ({"MESH_AGENT_ENVOY_MAX_HEAP": "1Mi"}, "it must be auto or a number of bytes, 32Mi or"),
        ({"MESH_AGENT_ENVOY_MAX_HEAP": "much"}, "MESH_AGENT_ENVOY_MAX_HEAP is 'much', it must"),
        (
            {"ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS": "-1"},
            "ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS is '-1', it must be a number of conn",
        ),
        ({"ISTIO_META_LOAD_STATS_CONFIG_JSON": "{"}, "ISTIO_META_LOAD_STATS_CONFIG_JSON is not"),
        (
            {
                "ISTIO_META_LOAD_STATS_CONFIG_JSON": json.dumps(
                    {"grpc_services": [{"envoy_grpc": {"cluster_name": "another"}}]}
                )
            },
            "can't be carried; it must name one service by its address",
        ),
        (
            {
                "ISTIO_META_LOAD_STATS_CONFIG_JSON": json.dumps(
                    {"grpcServices": [{"googleGrpc": {"targetUri": "nowhere"}}]}
                )
            },
            "ISTIO_META_LOAD_STATS_CONFIG_JSON: address 'nowhere' is not host:port",
        ),
    ],
)
def test_a_wrong_variable_is_one_sentence(
    load: Load, environ: dict[str, str], complaint: str
) -> None:
    (problem,) = problems_of(load, environ)
    assert complaint in problem


@pytest.mark.parametrize(
    ("annotation", "text", "complaint"),
    [
        ("statsFlushInterval", "soon", "statsFlushInterval: 'soon' is not a duration"),
        ("statsFlushInterval", "0s", "statsFlushInterval is '0s', it must be from 1ms to 5m"),
        ("statsEvictionInterval", "soon", "statsEvictionInterval: 'soon' is not a duration"),
        ("statsEvictionInterval", "7s", "it must be a multiple of the flush interval of 5s"),
        ("statsHistogramBuckets", "[1]", "it must be a JSON object of names' beginnings"),
        ("statsHistogramBuckets", '{"a": [2, 1]}', "rising positive bounds"),
        ("statsHistogramBuckets", '{"a": []}', "rising positive bounds"),
        ("statsHistogramBuckets", f'{{"a": [{10**400}]}}', "rising positive bounds"),
        ("statsHistogramBuckets", "{", "rising positive bounds"),
    ],
)
def test_a_wrong_annotation_is_one_sentence(
    load: Load, annotate: Annotate, annotation: str, text: str, complaint: str
) -> None:
    annotate(**{annotation: text})
    (problem,) = problems_of(load, {})
    assert complaint in problem
    assert problem.startswith("annotation sidecar.istio.io/stats")


TRACERS: dict[str, JSON] = {
    "zipkin": {"zipkin": {"address": "$(HOST_IP):9411"}, "sampling": 1.5},
    "datadog": {"datadog": {"address": "collector.example:8126"}},
    "openTelemetry": {"openTelemetry": {"address": "collector.example:4317"}},
}


@pytest.mark.parametrize("tracer", TRACERS)
def test_envoy_accepts_the_bootstrap_of_a_configuration_with_everything(
    load: Load, annotate: Annotate, workload: Path, envoy_binary: Path, tracer: str
) -> None:
    annotate(
        statsInclusionRegexps="listener.*",
        extraStatTags="zone",
        statsFlushInterval="2s",
        statsEvictionInterval="1m",
        statsHistogramBuckets='{"istio": [0.5, 10]}',
    )
    in_mesh = {"mode": "ISTIO_MUTUAL", "subjectAltNames": ["spiffe://cluster.local/ns/m/sa/c"]}
    rest: dict[str, JSON] = {
        "envoyMetricsService": {"address": "collector.example:4317", "tlsSettings": in_mesh},
        "envoyAccessLogService": {"address": "collector.example:4318"},
        "statsdUdpAddress": "127.0.0.1:8125",
        "proxyStatsMatcher": {"inclusionPrefixes": ["http.{pod_ip}_"]},
        "extraStatTags": ["team"],
        "runtimeValues": {"some.value": "true", "overload.global_downstream_max_connections": "9"},
        "connectionSettings": {"globalDownstreamConnectionLimit": "1000"},
    }
    loads = {"grpc_services": [{"google_grpc": {"target_uri": "collector.example:4319"}}]}
    config = load(
        {
            **proxy_config(tracing=TRACERS[tracer], **rest),
            "HOST_IP": "fd00::9",
            "ISTIO_DUAL_STACK": "true",
            "ISTIO_METAJSON_LABELS": '{"topology.istio.io/locality": "r/z/s"}',
            "ENVOY_SECURE_METRICS_PORT": "15091",
            "ENVOY_SECURE_MERGED_METRICS_PORT": "15092",
            "MESH_AGENT_ENVOY_MAX_HEAP": "200Mi",
            "ISTIO_META_LOAD_STATS_CONFIG_JSON": json.dumps(loads),
            "ISTIO_META_OUTLIER_LOG_PATH": "outliers.log",
        }
    )
    (workload / "bootstrap.json").write_text(
        json.dumps(envoy_supervisor.render_bootstrap(bootstrap(config)))
    )
    outcome = subprocess.run(
        [envoy_binary, "--mode", "validate", "--disable-hot-restart", "-c", "bootstrap.json"],
        cwd=workload,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "OK" in outcome.stdout
