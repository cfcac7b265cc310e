"""A file laid over the bootstrap, by Envoy itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from envoy_supervisor import BootstrapConfig, BootstrapError, bootstrap_override, render_bootstrap


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "custom_bootstrap.json"


@pytest.mark.parametrize(
    ("host_ip", "text", "expected"),
    [
        ("10.0.0.7", "a: $(HOST_IP)", "a: 10.0.0.7"),
        ("10.0.0.7", '{"a": "$(HOST_IP):8126"}', '{"a": "10.0.0.7:8126"}'),
        ("10.0.0.7", "$(HOST_IP) $(HOST_IP):1", "10.0.0.7 10.0.0.7:1"),
        ("2001:db8::7", "a: $(HOST_IP):8126", "a: [2001:db8::7]:8126"),
        ("2001:db8::7", "a: [$(HOST_IP)]:8126", "a: [2001:db8::7]:8126"),
        ("2001:db8::7", '{"address": "$(HOST_IP)"}', '{"address": "2001:db8::7"}'),
        ("", "a: $(HOST_IP)", "a: $(HOST_IP)"),
        ("10.0.0.7", "a: $(OTHER) ${HOST_IP}", "a: $(OTHER) ${HOST_IP}"),
    ],
)
def test_the_host_address_is_put_in(file: Path, host_ip: str, text: str, expected: str) -> None:
    file.write_text(text)
    assert bootstrap_override(file, {"HOST_IP": host_ip}) == ("--config-yaml", expected)


SINK = """
stats_sinks:
- name: envoy.stat_sinks.statsd
  typed_config:
    "@type": type.googleapis.com/envoy.config.metrics.v3.StatsdSink
    address: {socket_address: {protocol: UDP, address: "$(HOST_IP)", port_value: 8125}}
"""


@pytest.mark.parametrize(
    ("host_ip", "override"),
    [("10.0.0.7", '{"node": {"id": "$(HOST_IP)"}}'), ("10.0.0.7", SINK), ("2001:db8::7", SINK)],
    ids=["JSON", "YAML", "IPv6"],
)
def test_envoy_takes_it_beside_the_bootstrap(
    file: Path, tmp_path: Path, envoy_binary: Path, host_ip: str, override: str
) -> None:
    rendered = render_bootstrap(
        BootstrapConfig(
            node_id="n", node_cluster="c", xds_socket=Path("XDS"), sds_socket=Path("SDS")
        )
    )
    (tmp_path / "b.json").write_text(json.dumps(rendered))
    file.write_text(override)
    arguments = bootstrap_override(file, {"HOST_IP": host_ip})
    words = ["--mode", "validate", "--disable-hot-restart", "-c", "b.json", *arguments]
    subprocess.run([envoy_binary, *words], cwd=tmp_path, capture_output=True, check=True)


def test_a_file_that_cannot_be_read_is_logged_and_left_out(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert bootstrap_override(file) == ()
    (record,) = caplog.records
    assert record.__dict__["path"] == str(file)
    assert record.__dict__["why"] == "No such file or directory"


def test_an_empty_file_lays_nothing_over(file: Path) -> None:
    file.write_text("\n")
    assert bootstrap_override(file) == ()


@pytest.mark.parametrize(
    ("content", "environ", "complaint"),
    [
        (b"\xff", {}, "is not UTF-8 text"),
        (b"a\0b", {}, "it holds a zero byte"),
        (b"#" * 200_000, {}, "has 200000 bytes, and Envoy can be given 131071"),
        (b"$(HOST_IP)", {"HOST_IP": "host"}, "HOST_IP is 'host', which is not an IP address"),
    ],
    ids=["bytes", "zero", "large", "host"],
)
def test_what_cannot_be_given_to_envoy_is_refused(
    file: Path, content: bytes, environ: dict[str, str], complaint: str
) -> None:
    file.write_bytes(content)
    with pytest.raises(BootstrapError, match=complaint):
        bootstrap_override(file, environ)
