"""The memory that xDS clients may take, as the environment sets it."""

from dataclasses import fields
from pathlib import Path

import pytest

from mesh_discovery._config import CLIENT_LIMITS, ClientLimits, Flags, SettingsError, read_config
from xds_server import ServerConfig

MIB = 1 << 20
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
KEPT, PENDING = "MESH_DISCOVERY_XDS_KEPT_MIB", "MESH_DISCOVERY_XDS_PENDING_MIB"


def test_limits_of_clients_are_those_of_the_server_unless_they_are_set() -> None:
    assert read_config(FLAGS, {}).client_limits == CLIENT_LIMITS
    names = {each.name for each in fields(ServerConfig)}
    assert names.issuperset(ClientLimits._fields)
    environ = {
        KEPT: "500",
        f"{KEPT}_PER_IDENTITY": "100",
        f"{KEPT}_PER_STREAM": "50",
        PENDING: "64",
        f"{PENDING}_PER_IDENTITY": "8",
    }
    expected = ClientLimits(500 * MIB, 100 * MIB, 50 * MIB, 64 * MIB, 8 * MIB)
    assert read_config(FLAGS, environ).client_limits == expected


def test_a_smaller_whole_makes_its_parts_smaller() -> None:
    limits = read_config(FLAGS, {KEPT: "10", PENDING: "5"}).client_limits
    assert limits == ClientLimits(10 * MIB, 10 * MIB, 10 * MIB, 5 * MIB, 5 * MIB)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({KEPT: "much"}, f"{KEPT} is 'much'"),
        ({f"{KEPT}_PER_STREAM": "300"}, f"{KEPT}_PER_STREAM (300) is above the 256 MiB"),
        ({KEPT: "9", f"{KEPT}_PER_IDENTITY": "10"}, f"{KEPT}_PER_IDENTITY (10) is above the 9 MiB"),
        ({f"{PENDING}_PER_IDENTITY": "0"}, f"{PENDING}_PER_IDENTITY is '0'"),
    ],
)
def test_a_mistake_is_reported(environ: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_config(FLAGS, environ)
    assert said in str(raised.value)
