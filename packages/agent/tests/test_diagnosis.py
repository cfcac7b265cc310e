"""The doctor is given where everything of this agent is, also where its configuration is wrong."""

import json
from pathlib import Path

import pytest

from mesh_agent import Flags
from mesh_agent._config import compose_config
from mesh_agent._diagnosis import doctor_config
from mesh_doctor import DoctorConfig, Protocol

TOKEN = "var/run/secrets/tokens/istio-token"
ROOT = "var/run/secrets/istio/root-cert.pem"


def diagnosed(directory: Path, **environ: str) -> DoctorConfig:
    config, problems = compose_config(
        Flags(), environ={"ENVOY_PATH": "/bin/true", **environ}, directory=directory, version="1"
    )
    return doctor_config(config, problems)


def test_one_server_for_both_and_every_port(tmp_path: Path) -> None:
    config = diagnosed(
        tmp_path,
        POD_NAMESPACE="shop",
        SERVICE_ACCOUNT="web",
        MESH_AGENT_BIND_ADDRESS="127.1.2.3",
        PROXY_CONFIG=json.dumps({"discoveryAddress": "10.0.0.1:15012"}),
        ISTIO_META_DNS_CAPTURE="true",
        DNS_PROXY_ADDR="127.1.2.3:53",
        ISTIO_META_INTERCEPTION_MODE="TPROXY",
    )
    (server,) = config.servers
    assert (server.address, server.name, server.signs) == ("10.0.0.1:15012", "10.0.0.1", True)
    assert server.roots == tmp_path / ROOT
    assert config.token is not None
    assert (config.token.path, config.token.namespace) == (tmp_path / TOKEN, "shop")
    assert config.token.needed
    assert {(each.host, each.port, each.protocol) for each in config.ports} == {
        ("127.1.2.3", 15020, Protocol.TCP),
        ("127.1.2.3", 15000, Protocol.TCP),
        ("127.1.2.3", 15021, Protocol.TCP),
        ("127.1.2.3", 15090, Protocol.TCP),
        ("127.1.2.3", 53, Protocol.TCP),
        ("127.1.2.3", 53, Protocol.UDP),
    }
    assert config.dns is not None
    assert config.dns.listens == (("127.1.2.3", 53),)
    assert {each.address for each in config.clocks} == {"10.0.0.1:8080", "10.0.0.1:15014"}
    assert (config.agent.address, config.interception) == ("127.1.2.3:15020", "TPROXY")
    assert config.workload.endswith(".shop")


def test_two_servers(tmp_path: Path) -> None:
    config = diagnosed(tmp_path, CA_ADDR="ca.example:443", CA_ROOT_CA="SYSTEM")
    assert [(each.serves, each.address, each.signs) for each in config.servers] == [
        ("configuration", "istiod.istio-system.svc:15012", False),
        ("certificates", "ca.example:443", True),
    ]


def test_further_control_planes_are_examined_too(tmp_path: Path) -> None:
    config = diagnosed(tmp_path, MESH_AGENT_FURTHER_CONTROL_PLANES="b.example:15012")
    assert [(each.serves, each.address, each.name, each.signs) for each in config.servers] == [
        (
            "configuration and certificates",
            "istiod.istio-system.svc:15012",
            "istiod.istio-system.svc",
            True,
        ),
        ("configuration", "b.example:15012", "b.example", False),
    ]


def test_files_that_are_not_there_are_left_to_the_doctor(tmp_path: Path) -> None:
    config = diagnosed(tmp_path, SECRET_TTL="soon", POD_NAMESPACE="shop")
    assert [each.partition(":")[0] for each in config.problems] == ["SECRET_TTL"]


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::"])  # noqa: S104
def test_an_agent_on_every_interface_is_asked_on_this_machine(tmp_path: Path, address: str) -> None:
    config = diagnosed(tmp_path, MESH_AGENT_BIND_ADDRESS=address)
    assert config.agent.host == ("::1" if address == "::" else "127.0.0.1")


def test_without_an_envoy_none_is_looked_for(tmp_path: Path) -> None:
    config = diagnosed(tmp_path, DISABLE_ENVOY="true")
    assert (config.envoy, config.certificates) == (None, None)
    assert [each.port for each in config.ports] == [15020]


def test_an_envoy_that_is_not_there_is_reported(tmp_path: Path) -> None:
    config = diagnosed(tmp_path, ENVOY_PATH="/nowhere/envoy")
    assert any("/nowhere/envoy" in each for each in config.problems)


def test_plaintext_and_addresses_of_any_form(tmp_path: Path) -> None:
    for address in ("istiod:15010", "[::1]:15012"):
        config = diagnosed(tmp_path, PROXY_CONFIG=json.dumps({"discoveryAddress": address}))
        assert config.servers[0].address == address
        assert (config.servers[0].roots is None) == address.endswith(":15010")
    for address in ("nonsense", ":15012", "a:b:c"):
        config = diagnosed(tmp_path, PROXY_CONFIG=json.dumps({"discoveryAddress": address}))
        assert any("discoveryAddress" in each for each in config.problems)
