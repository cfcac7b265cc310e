from collections.abc import Mapping
from pathlib import Path

import pytest

from envoy_supervisor import Address
from istio_settings import ProxyConfig, Settings
from mesh_agent.envoy._bootstrap_files import BootstrapFiles, bootstrap_files


def found(
    directory: Path, environ: Mapping[str, str], *, custom: str = ""
) -> tuple[BootstrapFiles, list[str]]:
    settings = Settings(environ, directory)
    files = bootstrap_files(settings, ProxyConfig(custom_config_file=custom))
    return files, settings.problems


def test_most_agents_have_none(tmp_path: Path) -> None:
    files, problems = found(tmp_path, {})
    assert (files.paths, files.override_arguments(), problems) == ((), (), [])


def test_the_variable_comes_before_the_proxy_configs_field(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text("{}")
    files, problems = found(tmp_path, {"ISTIO_BOOTSTRAP": "one.json"}, custom="two.json")
    assert (files.whole, files.admin, problems) == (tmp_path / "one.json", None, [])
    assert found(tmp_path, {}, custom="two.json")[0].whole == tmp_path / "two.json"


def test_the_admin_interface_of_a_yaml_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 1500}}}\n"
    )
    files, problems = found(tmp_path, {}, custom="a.yaml")
    assert (files.admin, problems) == (Address(host="127.0.0.1", port=1500), [])


def test_lua_with_double_braces_is_no_template(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"code": "local t = {{1, 2}, {3}} local u = {{a=1}}"}')
    assert found(tmp_path, {}, custom="a.json")[1] == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, r"^customConfigFile: .*boot can't be read: No such file or directory$"),
        (b"\xff", r"^customConfigFile: .*boot can't be read: it is not UTF-8 text$"),
        (b'{\n "id": "{{ .nodeID }}"}', r"boot is a Go template \(see line 2\)"),
        (b"{{- if .zipkin }}", r"is a Go template \(see line 1\)"),
        (b"a: [", r"boot:1: not valid YAML: "),
        (b"admin: {}", r"boot: no admin.address.socket_address with address and port_value"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    import re

    if content is not None:
        (tmp_path / "boot").write_bytes(content)
    (problem,) = found(tmp_path, {}, custom="boot")[1]
    assert re.search(complaint, problem), problem


def test_an_override_is_read_when_it_is_wanted(tmp_path: Path) -> None:
    override = tmp_path / "override.yaml"
    override.write_text("node: {cluster: $(HOST_IP)}")
    environ = {"ISTIO_BOOTSTRAP_OVERRIDE": "override.yaml", "HOST_IP": "10.0.0.9"}
    files, _ = found(tmp_path, environ)
    assert files.paths == (override,)
    assert files.override_arguments() == ("--config-yaml", "node: {cluster: 10.0.0.9}")
    override.write_text("node: {cluster: other}")
    assert files.override_arguments() == ("--config-yaml", "node: {cluster: other}")
