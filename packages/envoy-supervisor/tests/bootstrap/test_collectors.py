"""Where traces, metrics, logs and loads go: what can be said of it, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from envoy_supervisor import (
    BootstrapConfig,
    BootstrapError,
    ClientTls,
    Datadog,
    LoadReportingService,
    MeshTls,
    OpenTelemetry,
    Statsd,
    Target,
    Tracing,
    Zipkin,
    render_bootstrap,
    tracing_by_name,
)

PROXY = BootstrapConfig(
    node_id="n", node_cluster="c", xds_socket=Path("XDS"), sds_socket=Path("SDS")
)
TARGET = Target(host="collector.example", port=4317)
TLS = ClientTls(server_name="collector.example", roots=Path("roots.pem"))


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":1", "host:0", "host:65536", "::1:80", "a:b"]
)
def test_targets_are_checked_when_parsed(text: str) -> None:
    with pytest.raises(BootstrapError, match="address"):
        Target.parse(text)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("zipkin", Zipkin(target=TARGET)),
        ("datadog", Datadog(target=TARGET, service_name="web")),
        ("openTelemetry", OpenTelemetry(target=TARGET, service_name="web")),
        ("opentelemetry", OpenTelemetry(target=TARGET, service_name="web")),
    ],
)
def test_tracers_are_found_by_name(kind: str, expected: Tracing) -> None:
    assert tracing_by_name(kind, target=TARGET, service_name="web") == expected


@pytest.mark.parametrize("kind", ["lightstep", "stackdriver", "openCensus", "openCensusAgent"])
def test_a_tracer_that_envoy_no_longer_has_is_refused_with_what_to_use_instead(kind: str) -> None:
    with pytest.raises(
        BootstrapError, match=f"'{kind}' is no longer part of Envoy; .*: use openTelemetry with"
    ):
        tracing_by_name(kind, target=TARGET, service_name="web")


def test_an_unknown_tracer_is_refused_with_those_there_are() -> None:
    with pytest.raises(BootstrapError, match="'x' is not known; use zipkin, datadog or openTel"):
        tracing_by_name("x", target=TARGET, service_name="web")


ENVOYS = (None, *filter(None, os.environ.get("ENVOY_PATHS", "").split(os.pathsep)))


@pytest.mark.parametrize("other", ENVOYS, ids=lambda path: path or "installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lightstep", "LightstepConfig"),
        ("opencensus", "OpenCensusConfig"),  # Stackdriver was a setting of this one
    ],
)
def test_envoy_really_has_no_such_tracer(
    name: str, message: str, other: str | None, envoy_binary: Path, tmp_path: Path
) -> None:
    tracer = {
        "name": f"envoy.tracers.{name}",
        "typed_config": {"@type": f"type.googleapis.com/envoy.config.trace.v3.{message}"},
    }
    (tmp_path / "b.json").write_text(json.dumps({"tracing": {"http": tracer}}))
    words = [other or envoy_binary, "--mode", "validate", "--disable-hot-restart", "-c", "b.json"]
    outcome = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert f"envoy.tracers.{name}" in outcome.stderr or message in outcome.stderr


def test_a_certificate_without_its_key_is_refused() -> None:
    tracing = Zipkin(target=TARGET, tls=structs.replace(TLS, certificate=Path("cert.pem")))
    with pytest.raises(BootstrapError, match=r"TLS to collector\.example: .* belong together"):
        render_bootstrap(replace(PROXY, tracing=tracing))


def test_any_identity_of_the_mesh_is_not_good_enough_for_a_collector() -> None:
    tracing = Zipkin(target=TARGET, tls=MeshTls(identities=()))
    with pytest.raises(BootstrapError, match=r"name at least one identity .* spiffe://"):
        render_bootstrap(replace(PROXY, tracing=tracing))


def test_load_reporting_to_the_control_plane_takes_no_tls_of_its_own() -> None:
    with pytest.raises(BootstrapError, match="TLS is set without a target"):
        render_bootstrap(replace(PROXY, load_reporting=LoadReportingService(tls=TLS)))


def test_statsd_by_name_is_refused() -> None:
    statsd = Statsd(address="statsd.example", port=8125)
    with pytest.raises(BootstrapError, match=r"'statsd\.example' is not an IP address"):
        render_bootstrap(replace(PROXY, statsd=statsd))


@pytest.mark.parametrize(("http2", "tracing"), [(False, "zipkin"), (True, "openTelemetry")])
def test_a_collector_gets_the_protocol_it_speaks(*, http2: bool, tracing: str) -> None:
    tracer = tracing_by_name(tracing, target=TARGET, service_name="web")
    rendered: Any = render_bootstrap(replace(PROXY, tracing=tracer))
    collector = rendered["static_resources"]["clusters"][-1]
    assert ("typed_extension_protocol_options" in collector) is http2
