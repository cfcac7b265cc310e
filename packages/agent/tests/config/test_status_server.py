"""Settings of the status server: whose metrics are merged, and which probes are run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_agent import AgentConfig, ConfigError
from mesh_agent.config._scrape_targets import _RESERVED
from mesh_probes import GrpcHealth, HttpGet, TcpSocket

Load = Callable[..., AgentConfig]

ANNOTATIONS = "ISTIO_PROMETHEUS_ANNOTATIONS"
PROBERS = "ISTIO_KUBE_APP_PROBERS"


def targets(load: Load, **values: object) -> list[str]:
    config = load({ANNOTATIONS: json.dumps(values)})
    return [each.name for each in config.status.scrape_targets]


def annotate(workload: Path, **annotations: str) -> None:
    (workload / "etc/istio/pod").mkdir(parents=True, exist_ok=True)
    lines = (
        f'prometheus.istio.io/{name.replace("_", "-")}="{text}"\n'
        for name, text in annotations.items()
    )
    (workload / "etc/istio/pod/annotations").write_text("".join(lines))


def test_without_the_setting_no_application_is_asked(load: Load) -> None:
    assert load().status.scrape_targets == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["localhost:80/metrics"]),
        ({"scrape": "", "path": "", "port": ""}, ["localhost:80/metrics"]),
        ({"scrape": "true", "path": "/p?a=1", "port": "8080"}, ["localhost:8080/p?a=1"]),
        ({"path": "metrics", "port": 8080}, ["localhost:8080/metrics"]),
        ({"scrape": "false", "port": "8080"}, []),
        ({"scrape": False, "port": "8080"}, []),
        ({"targets": "8080:/a, 9090 ,,8080:/a"}, ["localhost:8080/a", "localhost:9090/metrics"]),
        ({"targets": ["8080:/a", "9090:b"]}, ["localhost:8080/a", "localhost:9090/b"]),
        (
            {"targets": [{"port": "8080", "path": "/a"}, {"port": 1}]},
            ["localhost:8080/a", "localhost:1/metrics"],
        ),
        ({"targets": [], "port": "1"}, ["localhost:1/metrics"]),
    ],
)
def test_what_injection_writes_is_read(
    load: Load, values: dict[str, object], expected: list[str]
) -> None:
    assert targets(load, **values) == expected


def without_effect(config: AgentConfig) -> dict[str, str]:
    return {each.setting: each.reason for each in config.effective.without_effect}


def test_what_has_no_effect_is_reported(load: Load) -> None:
    values = {"targets": "8080", "port": "1", "more": "x", "scrape": "yes"}
    config = load({ANNOTATIONS: json.dumps(values)})
    assert [each.name for each in config.status.scrape_targets] == ["localhost:8080/metrics"]
    found = without_effect(config)
    assert found[f"{ANNOTATIONS}: more"] == "the known fields are scrape, path, port, targets"
    assert f"{ANNOTATIONS}: port and path" in found
    assert "only false" in found[f"{ANNOTATIONS}: scrape"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "ISTIO_PROMETHEUS_ANNOTATIONS is not JSON: "),
        ("[" * 100_000, "ISTIO_PROMETHEUS_ANNOTATIONS is not JSON: nested too deeply"),
        ("[]", "ISTIO_PROMETHEUS_ANNOTATIONS must be a JSON object with scrape, path"),
        ('{"port": "http"}', "port is 'http', it must be a number, 1 to 65535"),
        ('{"port": "0"}', "port is '0', it must be a number, 1 to 65535"),
        ('{"port": 70000}', "port is 70000, it must be a number, 1 to 65535"),
        ('{"port": true}', "port is True, it must be a number, 1 to 65535"),
        ('{"port": "\\u0661"}', "it must be a number, 1 to 65535"),
        ('{"port": [1]}', "port is [1], it must be a number, 1 to 65535"),
        ('{"port": "15020"}', "port 15020 is the agent's status port"),
        ('{"path": "/a b"}', "path is '/a b', it must be a path such as /metrics"),
        ('{"path": "/a#b"}', "path is '/a#b', it must be a path such as /metrics"),
        ('{"path": 5}', "path is 5, it must be a path such as /metrics"),
        ('{"targets": ":/metrics"}', "targets: port is '', it must be a number"),
        ('{"targets": 5}', "targets is 5, it must be a list of port:path"),
        ('{"targets": [5]}', "targets has 5, it must be port:path"),
        ('{"targets": "8080,15090"}', "port 15090 is Envoy's own metrics, which are merged anyway"),
    ],
)
def test_a_mistake_is_a_start_up_error(load: Load, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load({ANNOTATIONS: text})
    (sentence,) = raised.value.problems
    assert problem in sentence


@pytest.mark.parametrize("port", sorted(_RESERVED))
def test_reserved_ports_are_refused(load: Load, port: int) -> None:
    with pytest.raises(ConfigError, match=f"port {port} is "):
        targets(load, port=str(port))


def test_the_agents_own_port_is_refused_whatever_it_is(load: Load) -> None:
    proxy = {"discoveryAddress": "127.0.0.1:15012", "statusPort": 15999, "proxyAdminPort": 15998}
    for port in ("15999", "15998"):
        with pytest.raises(ConfigError, match=f"port {port} is "):
            load({ANNOTATIONS: json.dumps({"port": port}), "PROXY_CONFIG": json.dumps(proxy)})


def test_targets_of_the_pods_annotation_are_read(load: Load, workload: Path) -> None:
    annotate(workload, scrape_targets="8080:/a,9090:/b")
    expected = ["localhost:8080/a", "localhost:9090/b"]
    assert [each.name for each in load().status.scrape_targets] == expected
    assert targets(load, scrape="true", port="1") == expected
    assert targets(load, targets="5") == ["localhost:5/metrics"]
    assert targets(load, scrape="false") == []


def test_targets_of_an_annotation_are_not_read_if_merging_is_off(
    load: Load, workload: Path
) -> None:
    annotate(workload, scrape_targets="8080:/a", merge_metrics="false")
    assert load().status.scrape_targets == ()


def test_only_a_sidecar_has_an_application(load: Load) -> None:
    config = load({ANNOTATIONS: '{"port": "8080"}'}, role="router")
    assert config.status.scrape_targets == ()
    assert ANNOTATIONS in without_effect(config)


def test_probes_are_read(load: Load) -> None:
    text = json.dumps(
        {
            "/app-health/web/livez": {
                "httpGet": {"port": 1, "scheme": "HTTPS"},
                "timeoutSeconds": 3,
            },
            "/app-health/web/readyz": {"tcpSocket": {"port": 2}},
            "/app-lifecycle/web/prestopz": {"grpc": {"port": 3}},
        }
    )
    status = load({PROBERS: text}).status
    live, ready, hook = (probe.action for probe in status.app_probes.values())
    assert isinstance(live, HttpGet)
    assert live.http2
    assert status.app_probes["/app-health/web/livez"].timeout_s == 3
    assert isinstance(ready, TcpSocket)
    assert isinstance(hook, GrpcHealth)
    assert status.probe_host == "127.0.9.1"


def test_http2_and_the_older_destination_are_settings(load: Load) -> None:
    text = json.dumps({"/app-health/web/livez": {"httpGet": {"port": 1, "scheme": "HTTPS"}}})
    status = load(
        {
            PROBERS: text,
            "ISTIO_ENABLE_HTTP2_PROBING": "false",
            "REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION": "true",
        }
    ).status
    action = status.app_probes["/app-health/web/livez"].action
    assert isinstance(action, HttpGet)
    assert not action.http2
    assert status.probe_host == "localhost"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"/app-health/web/live": {"httpGet": {"port": 1}}}',
        '{"/app-health/web/livez": {}}',
        '{"/app-health/web/livez": {"httpGet": {"port": 1}, "tcpSocket": {"port": 1}}}',
        '{"/app-health/web/livez": {"httpGet": {"port": "http"}}}',
    ],
)
def test_wrong_probes_are_a_start_up_error(load: Load, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load({PROBERS: text})
    (sentence,) = raised.value.problems
    assert sentence.startswith(f"{PROBERS}: ")
