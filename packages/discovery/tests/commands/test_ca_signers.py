"""How many processes sign certificates, by flag and environment."""

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


@pytest.mark.parametrize(
    ("flag", "variable", "expected"),
    [("", "", 0), ("0", "", 0), ("2", "", 2), ("", "64", 64), ("1", "3", 1)],
)
def test_the_flag_counts_before_the_environment(flag: str, variable: str, expected: int) -> None:
    config = read_config(replace(FLAGS, ca_signers=flag), {"MESH_DISCOVERY_CA_SIGNERS": variable})
    assert config.ca_signers == expected


@pytest.mark.parametrize("wrong", ["-1", "65", "1.5", "two", " 1", "\u0661", "9" * 5000])
def test_what_is_no_number_of_processes_is_refused(wrong: str) -> None:
    sentence = f"is {wrong!r}: expected a whole number from 0 to 64"
    with pytest.raises(SettingsError) as by_flag:
        read_config(replace(FLAGS, ca_signers=wrong), {})
    assert by_flag.value.problems == (f"--ca-signers {sentence}",)
    with pytest.raises(SettingsError) as by_variable:
        read_config(FLAGS, {"MESH_DISCOVERY_CA_SIGNERS": wrong})
    assert by_variable.value.problems == (f"MESH_DISCOVERY_CA_SIGNERS {sentence}",)
