"""The effective configuration: what counts, where it comes from, and no secrets."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mesh_agent import AgentConfig, ConfigError
from mesh_agent.config.table._flags import FLAGS

Load = Callable[..., AgentConfig]
CANARY = "canary-6b1f"


def entry(config: AgentConfig, section: str, name: str) -> tuple[object, str]:
    found = {each.name: each for each in config.effective.sections[section]}[name]
    return found.value, found.origin


def test_each_value_has_its_origin(load: Load, workload: Path) -> None:
    mesh = workload / "mesh.yaml"
    mesh.write_text("defaultConfig:\n  drainDuration: 7s\n  proxyMetadata:\n    SECRET_TTL: 2h\n")
    pod = workload / "etc/istio/pod"
    pod.mkdir(parents=True)
    (pod / "annotations").write_text(
        'proxy.istio.io/config="concurrency: 3\\nproxyAdminPort: 15999\\n"\n'
        'status.sidecar.istio.io/port="15998"\n'
    )
    config = load({"PKCS8_KEY": "true"}, mesh_config="mesh.yaml", service_cluster="web")
    expected = {
        ("flags", "--meshConfig"): ("mesh.yaml", "flag"),
        ("flags", "--proxyLogLevel"): ("warning", "default"),
        ("variables", "PKCS8_KEY"): (True, "env"),
        ("variables", "SECRET_TTL"): ("2h", "mesh.yaml:4: defaultConfig: proxyMetadata"),
        ("variables", "OUTPUT_CERTS"): ("", "default"),
        ("proxyConfig", "drainDuration"): ("7s", "mesh.yaml:2: defaultConfig"),
        ("proxyConfig", "proxyAdminPort"): (15999, "annotation proxy.istio.io/config:2"),
        ("proxyConfig", "statusPort"): (15998, "annotation status.sidecar.istio.io/port"),
        ("proxyConfig", "serviceCluster"): ("web", "flag --serviceCluster"),
        ("proxyConfig", "discoveryAddress"): ("127.0.0.1:15012", "PROXY_CONFIG"),
        ("proxyConfig", "configPath"): ("./etc/istio/proxy", "default"),
    }
    assert {key: entry(config, *key) for key in expected} == expected


def test_without_defaults_what_was_set_is_shown_and_what_comes_of_it(load: Load) -> None:
    effective = load({"SECRET_TTL": "2h"}, concurrency=3).effective
    every, differs = (yaml.safe_load(effective.as_text(defaults=each)) for each in (True, False))
    assert differs["variables"]["SECRET_TTL"] == "2h"
    assert set(differs["proxyConfig"]) == {"discoveryAddress", "concurrency"}
    assert differs["results"] == every["results"]
    assert "OUTPUT_CERTS" in every["variables"]
    assert "OUTPUT_CERTS" not in differs["variables"]
    plain = yaml.safe_load(load().effective.as_text(defaults=False))
    assert "SECRET_TTL" not in plain["variables"]


def test_every_flag_that_is_honoured_is_shown(load: Load) -> None:
    shown = {each.name for each in load().effective.sections["flags"]}
    honoured = {each.name for each in FLAGS if each.fate == "honoured"}
    assert honoured - shown == set()


def test_variables_win_over_proxy_metadata_which_wins_over_defaults(load: Load) -> None:
    metadata = '{"proxyMetadata": {"SECRET_TTL": "2h", "ISTIO_META_X": "c", "ISTIO_META_Y": true}}'
    given = {"PROXY_CONFIG": metadata, "ISTIO_META_X": "e"}
    config = load(given)
    assert config.rotation.lifetime.total_seconds() == 7200
    assert config.metadata_variables == {"SECRET_TTL": "2h", "ISTIO_META_Y": "true"}
    assert load({**given, "SECRET_TTL": "3h"}).rotation.lifetime.total_seconds() == 10800


@pytest.mark.parametrize("value", ["[1]", "{}", "null"])
def test_a_value_of_proxy_metadata_that_is_no_text_is_named_with_its_line(
    load: Load, value: str
) -> None:
    text = f"concurrency: 1\nproxyMetadata:\n  A: x\n  B: {value}\n"
    with pytest.raises(ConfigError, match=r"PROXY_CONFIG:4: proxyMetadata\.B is .* must be text"):
        load({"PROXY_CONFIG": text})


def test_secrets_are_hidden_in_every_form(load: Load) -> None:
    config = load(
        {
            "XDS_HEADER_authorization": CANARY,
            "CA_HEADER_X": CANARY,
            "ISTIO_META_API_TOKEN": CANARY,
            "PROXY_CONFIG": json.dumps(
                {"proxyMetadata": {"DB_PASSWORD": CANARY, "XDS_HEADER_A": CANARY}}
            ),
        }
    )
    assert CANARY not in json.dumps(config.effective.as_json())
    assert CANARY not in config.effective.as_text()
    assert entry(config, "variables", "XDS_HEADER_authorization") == ("(hidden)", "env")
    assert entry(config, "variables", "SECRET_TTL") == ("24h", "default")


def test_the_text_is_yaml_of_the_same_values(load: Load) -> None:
    effective = load({"ISTIO_META_X": 'a "b": #c', "ISTIO_NEW": "1", "POD_NAME": "on"}).effective
    read = yaml.safe_load(effective.as_text())
    for section, entries in effective.sections.items():
        assert read[section] == {each.name: each.value for each in entries}
    assert read["without_effect"] == {"ISTIO_NEW": "the agent knows no such variable"}


def test_fields_of_the_mesh_file_that_do_not_exist_are_reported_with_their_lines(
    load: Load, workload: Path
) -> None:
    (workload / "mesh").write_text(
        "accessLogFile: /dev/stdout\nacessLogFormat: x\ntrustDomain: other\n"
    )
    findings = load({}, mesh_config="mesh").effective.without_effect
    assert [str(each) for each in findings] == [
        (
            "mesh:2: acessLogFormat has no effect: the agent knows no such field of MeshConfig; "
            "did you mean accessLogFormat?"
        ),
        (
            "mesh:3: trustDomain has no effect: the agent's trust domain is cluster.local; "
            "TRUST_DOMAIN sets it"
        ),
    ]


def test_mistakes_of_all_layers_are_reported_at_once_with_layer_line_and_field(
    load: Load, workload: Path
) -> None:
    (workload / "mesh").write_text("defaultConfig:\n  drainDuration: soon\n  statusPort: 0\n")
    pod = workload / "etc/istio/pod"
    pod.mkdir(parents=True)
    (pod / "annotations").write_text('proxy.istio.io/config="tracing:\\n  zipkin:\\n    a: b\\n"\n')
    with pytest.raises(ConfigError) as caught:
        load({"PROXY_CONFIG": "concurrency: 1\nunknown: 1\n"}, mesh_config="mesh")
    problems = "\n".join(caught.value.problems)
    assert "PROXY_CONFIG:2: 'unknown' is not a field of ProxyConfig" in problems
    assert "mesh:2: defaultConfig: drainDuration is 'soon', it must be a duration" in problems
    assert "mesh:3: defaultConfig: statusPort is 0, it must be a port" in problems
    assert "annotation proxy.istio.io/config:3: tracing.zipkin.a is not known" in problems


def mesh_agent(directory: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mesh_agent", *words],
        cwd=directory,
        env={"PATH": "/usr/bin", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_shows_the_configuration_and_the_mistakes(workload: Path) -> None:
    envoy = {"ENVOY_PATH": str(workload / "envoy")}
    good = mesh_agent(workload, "--log_as_json", "config", "router", "--json", "--vklog=0", **envoy)
    assert (good.returncode, good.stderr) == (0, "")
    shown = json.loads(good.stdout)
    assert shown["flags"]["type"] == {"value": "router", "from": "argument"}
    assert shown["flags"]["--log_as_json"] == {"value": True, "from": "flag"}
    for words in (("-o", "json"), ("-o=json",), ("--output=json",)):
        same = mesh_agent(workload, "--log_as_json", "config", "router", *words, **envoy)
        assert json.loads(same.stdout) == shown
    bad = mesh_agent(workload, "config", SECRET_TTL="soon", **envoy)
    assert bad.returncode == 1
    assert yaml.safe_load(bad.stdout)["variables"]["SECRET_TTL"] == "24h"
    assert (
        bad.stderr
        == "mesh-agent: SECRET_TTL: 'soon' is not a duration such as 24h, 1h30m, 20s or 100ms\n"
    )
