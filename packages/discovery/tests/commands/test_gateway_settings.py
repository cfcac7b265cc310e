"""The settings of gateways, from flags and the environment."""

from dataclasses import replace
from pathlib import Path

import pytest

from mesh_discovery._config import Flags, SettingsError, read_config

FLAGS = Flags(
    config_dir=Path("mesh"),
    mesh_config=None,
    ca_dir=None,
    jwks_file=None,
    jwks_url="",
    jwt_issuer="",
    jwt_audiences=(),
    http_addr=":8080",
    grpc_addr=":15010",
    secure_grpc_addr=":15012",
    monitoring_addr=":15014",
    domain="cluster.local",
    shutdown_duration="10s",
)


def test_keys_stay_off_the_plaintext_port_and_gateways_are_for_all_namespaces() -> None:
    config = read_config(FLAGS, {})
    assert (config.plaintext_secrets, config.scope_gateways) == (False, False)
    assert not config.strict_namespaces


def test_flag_and_variables_change_that() -> None:
    flags = replace(FLAGS, believe_plaintext=True, plaintext_secrets=True)
    assert read_config(flags, {}).plaintext_secrets
    config = read_config(
        FLAGS,
        {
            "MESH_DISCOVERY_BELIEVE_PLAINTEXT": "true",
            "MESH_DISCOVERY_PLAINTEXT_SECRETS": "true",
            "PILOT_SCOPE_GATEWAY_TO_NAMESPACE": "true",
            "MESH_DISCOVERY_STRICT_NAMESPACES": "true",
        },
    )
    assert (config.plaintext_secrets, config.scope_gateways) == (True, True)
    assert config.strict_namespaces
    assert read_config(replace(FLAGS, strict_namespaces=True), {}).strict_namespaces


def test_keys_go_over_plaintext_only_to_callers_that_are_believed() -> None:
    with pytest.raises(SettingsError, match="without --believe-plaintext"):
        read_config(replace(FLAGS, plaintext_secrets=True), {})


def test_one_identity_can_not_be_allowed_more_workloads_than_all() -> None:
    limits = read_config(FLAGS, {"MESH_DISCOVERY_WORKLOADS": "500"}).registration_limits
    assert (limits.of_identity, limits.in_all) == (500, 500)
    with pytest.raises(SettingsError, match="one identity could keep all others out"):
        read_config(FLAGS, {"MESH_DISCOVERY_WORKLOADS_PER_IDENTITY": "20000"})


def test_variable_that_is_no_truth_value_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="PILOT_SCOPE_GATEWAY_TO_NAMESPACE is 'yes'"):
        read_config(FLAGS, {"PILOT_SCOPE_GATEWAY_TO_NAMESPACE": "yes"})
