from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from envoy_supervisor import (
    JSON,
    AccessLogService,
    Address,
    BootstrapConfig,
    BootstrapError,
    ClientTls,
    Datadog,
    EnvoyConfig,
    LoadReportingService,
    Locality,
    MeshTls,
    MetricsService,
    OpenTelemetry,
    StatsConfig,
    Statsd,
    Target,
    UnixAddress,
    Zipkin,
    envoy_arguments,
    render_bootstrap,
)
from mesh_ca import load_or_create_authority
from mesh_testkit import Golden

ANY = str(IPv4Address(0))
SIDECAR = BootstrapConfig(
    node_id="sidecar~10.0.0.7~web-1.shop~shop.svc.cluster.local",
    node_cluster="web.shop",
    node_metadata={
        "NAMESPACE": "shop",
        "LABELS": {"app": "web"},
        "INSTANCE_IPS": "10.0.0.7",
        "PROXY_CONFIG": {"concurrency": 2, "proxyMetadata": {}},
    },
    locality=Locality(region="north", zone="north-1"),
    xds_socket=Path("./etc/istio/proxy/XDS"),
    sds_socket=Path("./var/run/secrets/workload-spiffe-uds/socket"),
    readiness_listener=Address(host=ANY, port=15021),
    prometheus_listener=Address(host=ANY, port=15090),
)
TLS = ClientTls(server_name="otel.example", roots=Path("/etc/ssl/certs/ca-certificates.crt"))
MESH_TLS = MeshTls(
    identities=("spiffe://cluster.local/ns/monitoring/sa/collector", "collector.example"),
    server_name="collector.monitoring.svc.cluster.local",
)
HOSTILE: dict[str, JSON] = {
    "quotes": 'a "quoted" \\ value\', {"admin": null}',
    "templates": "${HOME} $(HOST_IP) {{ .Node }} %DOWNSTREAM_REMOTE_ADDRESS%",
    "lines": "one\ntwo\r\nthree\u2028four\x00five",
    "emoji \N{PILE OF POO}": "\N{PILE OF POO}\N{ZERO WIDTH JOINER}\N{COMBINING ACUTE ACCENT}",
    "not unicode": "caf\udce9",
    "": {"": [[], {}, None, True, -1, 1.5, 2**53]},
    "</script><admin>": "x",
}
GOLDEN = {
    "sidecar": SIDECAR,
    "delta": replace(SIDECAR, delta_xds=True),
    "proxy-protocol": replace(SIDECAR, readiness_proxy_protocol=True),
    "minimal": BootstrapConfig(
        node_id="n", node_cluster="c", xds_socket=Path("XDS"), sds_socket=Path("SDS")
    ),
    "router": replace(
        SIDECAR, node_id="router~10.0.0.7~gateway-1.istio-system~istio-system.svc.cluster.local"
    ),
    "ipv6": replace(
        SIDECAR,
        admin=Address(host="::1", port=15000),
        status_target=Address(host="::1", port=15020),
        readiness_listener=Address(host="::", port=15021),
        prometheus_listener=Address(host="::", port=15090),
    ),
    "unix_admin": replace(SIDECAR, admin=UnixAddress(path=Path("admin.sock"))),
    "stats": replace(
        SIDECAR,
        stats=StatsConfig(
            inclusion_prefixes=("cluster.outbound",),
            inclusion_suffixes=("upstream_rq_total",),
            inclusion_regexes=(r"http\..*;\..*",),
            extra_tags=("source_workload", "destination.service", "source_workload"),
            flush_interval_s=10,
            histogram_buckets={"istiocustom": (1.0, 5.0, 10.5)},
        ),
    ),
    "stats_all": replace(SIDECAR, stats=StatsConfig(keep_all=True)),
    "overload": replace(SIDECAR, max_connections=1000, max_heap_bytes=128 << 20),
    "runtime": replace(
        SIDECAR,
        runtime={
            "re2.max_program_size.error_level": "",
            "envoy.reloadable_features.http_reject_path_with_fragment": "true",
            "overload.global_downstream_max_connections": "1000",
        },
    ),
    "dual_stack": replace(SIDECAR, dual_stack=True),
    "zipkin": replace(
        SIDECAR,
        tracing=Zipkin(target=Target.parse("zipkin.istio-system:9411")),
        statsd=Statsd(address="10.0.0.9", port=8125),
        outlier_log=Path("/dev/stdout"),
    ),
    "datadog": replace(
        SIDECAR,
        tracing=Datadog(target=Target.parse("[2001:db8::1]:8126"), service_name="web.shop"),
    ),
    "opentelemetry": replace(
        SIDECAR,
        tracing=OpenTelemetry(
            target=Target.parse("otel.example:4317"), service_name="web.shop", tls=TLS
        ),
        metrics_service=MetricsService(target=Target.parse("metrics.example:443")),
        access_log_service=AccessLogService(target=Target.parse("10.0.0.9:9000")),
    ),
    "limits": replace(
        SIDECAR,
        max_connections=500,
        runtime={"overload.global_downstream_max_connections": "1000"},
    ),
    "stats_eviction": replace(
        SIDECAR, stats=StatsConfig(flush_interval_s=10, eviction_interval_s=60)
    ),
    "collectors_tls": replace(
        SIDECAR,
        tracing=Zipkin(target=Target.parse("zipkin.monitoring:9411"), tls=MESH_TLS),
        metrics_service=MetricsService(target=Target.parse("metrics.example:443"), tls=TLS),
        access_log_service=AccessLogService(
            target=Target.parse("logs.example:443"),
            tls=structs.replace(TLS, certificate=Path("chain.pem"), private_key=Path("key.pem")),
        ),
        load_reporting=LoadReportingService(target=Target.parse("loads:443"), tls=MESH_TLS),
    ),
    "load_reporting": replace(SIDECAR, load_reporting=LoadReportingService()),
    "zone_aware": replace(
        SIDECAR, local_cluster="outbound|80||web.shop.svc.cluster.local", outlier_log=Path("out")
    ),
    "secure_metrics": replace(
        SIDECAR,
        prometheus_listener=Address(host="127.0.0.1", port=15090),
        secure_prometheus_listener=Address(host=ANY, port=15091),
        secure_metrics_listener=Address(host=ANY, port=15092),
        dual_stack=True,
    ),
    "files": replace(SIDECAR, sds_files_socket=Path("./var/run/secrets/credential-uds/socket")),
    "hostile": replace(SIDECAR, node_metadata=HOSTILE),
}


def test_the_bootstrap_of_a_sidecar_is_as_reviewed(golden: Golden) -> None:
    golden("sidecar.json", render_bootstrap(SIDECAR))


@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - {"sidecar"}))
def test_a_bootstrap_differs_from_the_sidecars_as_reviewed(name: str, golden: Golden) -> None:
    golden(f"{name}.json", render_bootstrap(GOLDEN[name]), base=render_bootstrap(SIDECAR))


OTHER_ENVOYS = tuple(filter(None, os.environ.get("ENVOY_PATHS", "").split(os.pathsep)))


def validated(
    config: BootstrapConfig, binary: str | Path, directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    (directory / "bootstrap.json").write_text(json.dumps(render_bootstrap(config)))
    words = [binary, "--mode", "validate", "--disable-hot-restart", "-c", "bootstrap.json"]
    return subprocess.run(
        [*words, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def with_certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that bootstraps name, which Envoy reads when it validates."""
    directory = tmp_path_factory.mktemp("certificates")
    authority = load_or_create_authority(directory / "ca", trust_domain="cluster.local")
    key, chain = authority.issue_server_certificate(["proxy.example"])
    (directory / "key.pem").write_bytes(key)
    (directory / "chain.pem").write_bytes(chain)
    return directory


@pytest.mark.parametrize("other", [None, *OTHER_ENVOYS], ids=lambda path: path or "installed")
@pytest.mark.parametrize("name", GOLDEN)
def test_envoy_accepts_the_bootstrap(
    name: str, other: str | None, envoy_binary: Path, with_certificates: Path
) -> None:
    outcome = validated(GOLDEN[name], other or envoy_binary, with_certificates)
    assert outcome.returncode == 0, outcome.stderr
    assert "OK" in outcome.stdout


def test_envoy_has_the_flags_that_settings_ask_for(envoy_binary: Path, tmp_path: Path) -> None:
    config = EnvoyConfig(
        binary=envoy_binary,
        bootstrap=SIDECAR,
        directory=tmp_path,
        skip_deprecated_logs=True,
        enable_core_dump=True,
        file_flush_interval=timedelta(seconds=5),
    )
    flags = envoy_arguments(config, tmp_path / "bootstrap.json")
    assert "--skip-deprecated-logs" in flags
    assert "--enable-core-dump" in flags
    assert flags[flags.index("--file-flush-interval-msec") + 1] == "5000"
    (tmp_path / "bootstrap.json").write_text(json.dumps(render_bootstrap(SIDECAR)))
    words = [str(envoy_binary), "--mode", "validate", *flags]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_metadata_of_a_megabyte_is_rendered(envoy_binary: Path, tmp_path: Path) -> None:
    config = replace(SIDECAR, node_metadata={"LABELS": {"huge": "x" * 1_000_000}})
    assert validated(config, envoy_binary, tmp_path).returncode == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )
)
def test_any_metadata_stays_data(value: JSON) -> None:
    rendered = render_bootstrap(replace(SIDECAR, node_metadata={"key": value}))
    plain = render_bootstrap(replace(SIDECAR, node_metadata={}))
    assert {**rendered, "node": None} == {**plain, "node": None}
    # Strict UTF-8: what cannot be encoded would be refused by Envoy's parser.
    json.dumps(rendered, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (float("nan"), r"node metadata\.a\.b is nan, which JSON cannot express"),
        (float("-inf"), r"node metadata\.a\.b is -inf"),
    ],
)
def test_numbers_that_json_lacks_are_refused_by_name(value: float, complaint: str) -> None:
    config = replace(SIDECAR, node_metadata={"a": {"b": value}})
    with pytest.raises(BootstrapError, match=complaint):
        render_bootstrap(config)


def test_bottomless_metadata_is_refused() -> None:
    value: JSON = "bottom"
    for _ in range(100):
        value = [value]
    with pytest.raises(BootstrapError, match="nested deeper than 32 levels"):
        render_bootstrap(replace(SIDECAR, node_metadata={"deep": value}))


@pytest.mark.parametrize(
    ("limit", "runtime", "expected"),
    [
        (None, {}, 2**31 - 1),
        (None, {"overload.global_downstream_max_connections": "1000"}, 1000),
        (None, {"overload.global_downstream_max_connections": 1000}, 1000),
        (None, {"overload.global_downstream_max_connections": ""}, 2**31 - 1),
        (500, {"overload.global_downstream_max_connections": "1000"}, 500),
        (500, {"overload.global_downstream_max_connections": ""}, 500),
    ],
)
def test_the_connection_limit_comes_from_the_field_then_from_its_older_name(
    limit: int | None, runtime: dict[str, JSON], expected: int
) -> None:
    rendered: Any = render_bootstrap(replace(SIDECAR, max_connections=limit, runtime=runtime))
    (monitor,) = rendered["overload_manager"]["resource_monitors"]
    assert monitor["typed_config"]["max_active_downstream_connections"] == str(expected)
    # Said twice, Envoy would take the monitor's and warn of the older name.
    (layer, _) = rendered["layered_runtime"]["layers"]
    assert "overload.global_downstream_max_connections" not in layer["static_layer"]


@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_a_connection_limit_that_is_no_number_is_refused(text: str) -> None:
    runtime = {"overload.global_downstream_max_connections": text}
    with pytest.raises(BootstrapError, match=f"{text!r}, which is not a number of connections"):
        render_bootstrap(replace(SIDECAR, runtime=runtime))


@pytest.mark.parametrize(("flush_s", "eviction_s"), [(None, 7), (10, 5), (10, 25), (10, 0)])
def test_statistics_are_evicted_when_they_are_flushed(
    flush_s: float | None, eviction_s: float
) -> None:
    stats = StatsConfig(flush_interval_s=flush_s, eviction_interval_s=eviction_s)
    with pytest.raises(
        BootstrapError, match=f"{eviction_s} s is not a multiple of .* {flush_s or 5} s"
    ):
        render_bootstrap(replace(SIDECAR, stats=stats))


@pytest.mark.parametrize(
    ("host", "port", "complaint"),
    [("localhost", 1, "'localhost' is not an IP address"), ("127.0.0.1", 65536, "65536 is not in")],
)
def test_addresses_are_checked_when_constructed(host: str, port: int, complaint: str) -> None:
    with pytest.raises(BootstrapError, match=complaint):
        Address(host=host, port=port)
