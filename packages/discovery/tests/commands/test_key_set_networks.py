"""Where key sets of RequestAuthentications may be, by flag and environment."""

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
    jwt_audiences=("istio-ca",),
    http_addr="",
    grpc_addr="",
    secure_grpc_addr=":15012",
    monitoring_addr="",
    domain="cluster.local",
    shutdown_duration="10s",
)
HERE, METADATA, PRIVATE = "127.0.0.1", "169.254.169.254", "10.1.2.3"


def blocked(environ: dict[str, str], flag: str = "") -> list[str]:
    """Return which of three addresses key sets are not fetched from."""
    guard = read_config(replace(FLAGS, key_set_networks=flag), environ).key_set_guard
    return [each for each in (HERE, METADATA, PRIVATE) if guard.blocks(each)]


def test_this_machine_and_metadata_services_are_blocked() -> None:
    assert blocked({}) == [HERE, METADATA]


def test_networks_of_this_machine_can_be_allowed_and_metadata_services_cannot() -> None:
    assert blocked({}, flag="127.0.0.0/8, ::1") == [METADATA]
    assert blocked({"MESH_DISCOVERY_KEY_SET_NETWORKS": "0.0.0.0/0"}) == [METADATA]


def test_further_networks_are_blocked_by_istios_variable() -> None:
    assert blocked({"BLOCKED_CIDRS_IN_JWKS_URIS": "10.0.0.0/8"}) == [HERE, METADATA, PRIVATE]


def test_what_is_no_network_is_reported() -> None:
    with pytest.raises(SettingsError) as failed:
        read_config(
            replace(FLAGS, key_set_networks="here"), {"BLOCKED_CIDRS_IN_JWKS_URIS": "::/999"}
        )
    assert failed.value.problems == (
        "--key-set-networks: 'here' is no network such as 10.0.0.0/8",
        "BLOCKED_CIDRS_IN_JWKS_URIS: '::/999' is no network such as 10.0.0.0/8",
    )
