"""A configuration is judged for redirected traffic, unless it or the caller says otherwise."""

from pathlib import Path

import pytest

from istio_config.kinds.mesh_config import InterceptionMode
from mesh_discovery._check import check_configuration
from planes import run_command

ENTRY = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: any, namespace: default}
spec:
  hosts: [any.test]
  resolution: NONE
  location: MESH_EXTERNAL
  ports: [{number: 443, name: tls, protocol: TLS}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: default}
spec:
  egress: [{port: {number: 443, name: tls, protocol: TLS}, captureMode: IPTABLES, hosts: ["*/*"]}]
"""
NONE = (
    "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
    "spec: {defaultConfig: {interceptionMode: NONE}}\n"
)
FIELDS = ["spec.egress[0].captureMode", "spec.resolution"]


@pytest.mark.parametrize("mode", [None, InterceptionMode.REDIRECT, InterceptionMode.TPROXY])
def test_what_needs_redirected_traffic_is_right(
    config_dir: Path, mode: InterceptionMode | None
) -> None:
    (config_dir / "mesh.yaml").write_text(ENTRY)

    assert check_configuration(config_dir, interception=mode).unreachable == ()


def test_it_is_reported_where_the_mesh_config_or_the_caller_says_none(config_dir: Path) -> None:
    (config_dir / "mesh.yaml").write_text(ENTRY)
    by_caller = check_configuration(config_dir, interception=InterceptionMode.NONE)
    (config_dir / "config.yaml").write_text(NONE)
    by_config = check_configuration(config_dir)

    for checked in (by_caller, by_config):
        assert sorted(each.field for each in checked.unreachable) == FIELDS


async def test_the_command_says_it_and_rules_of_a_mesh_file_are_of_unredirected_proxies(
    tmp_path: Path,
) -> None:
    rules = tmp_path / "shop" / "rules"
    rules.mkdir(parents=True)
    (rules / "any.yaml").write_text(ENTRY)

    assert (await run_command(tmp_path, "check", str(rules)))[0] == 0
    assert (await run_command(tmp_path, "check", str(rules), "--interception-mode=none"))[0] == 1
    (tmp_path / "shop" / "mesh.yaml").write_text("workloads: []\n")
    assert (await run_command(tmp_path, "check", str(rules)))[0] == 1
    code, output = await run_command(tmp_path, "check", str(rules), "--interception-mode=ebpf")
    assert code == 2
    assert "expected one of NONE, REDIRECT, TPROXY" in output
