"""A version of what Envoy runs with, read from its configuration."""

from pathlib import Path

from envoy_supervisor import BootstrapConfig, EnvoyConfig
from envoy_supervisor.processes._version import read_version


def test_a_log_format_in_the_override_is_the_only_one(tmp_path: Path) -> None:
    config = EnvoyConfig(
        binary=tmp_path / "envoy",
        bootstrap=BootstrapConfig(
            node_id="n", node_cluster="c", xds_socket=tmp_path / "X", sds_socket=tmp_path / "S"
        ),
        directory=tmp_path,
        extra_args=("--config-yaml", '{"application_log_config": {}}'),
    )
    assert read_version(config).sets_log_format
