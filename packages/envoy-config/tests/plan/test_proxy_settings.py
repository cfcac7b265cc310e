"""The settings of one proxy: its own ProxyConfig over that of the mesh."""

import logging
from typing import Any

import pytest

from envoy_config.plan._proxy_settings import NO_SETTINGS, ProxySettings
from istio_config.kinds.mesh_config import (
    ClientCertDetails,
    ConnectionSettings,
    GatewayTopology,
    ProxyConfig,
    ProxyHeaders,
    ServerHeader,
)
from mesh_configfile import Duration
from proxies import proxy_of
from xds_server import JSON, Node

MESH = ProxyConfig(
    proxy_headers=ProxyHeaders(server=ServerHeader(value="mesh")),
    gateway_topology=GatewayTopology(num_trusted_proxies=1),
)


def settings(config: JSON) -> ProxyConfig:
    node = Node(id="sidecar~10.0.0.1~a.b~b.svc.x", metadata={"PROXY_CONFIG": config})
    return proxy_of(node).settings.config


def test_a_proxy_without_a_config_has_the_settings_of_the_mesh() -> None:
    own = proxy_of(Node(id="sidecar~10.0.0.1~a.b~b.svc.x")).settings

    assert own is NO_SETTINGS
    assert own.over(MESH).config == MESH


def test_a_part_of_its_own_replaces_that_of_the_mesh_as_a_whole() -> None:
    own = settings({"concurrency": 2, "proxyHeaders": {"forwardedClientCert": "SANITIZE"}})

    merged = own.over(MESH)

    assert merged.proxy_headers == ProxyHeaders(forwarded_client_cert=ClientCertDetails.SANITIZE)
    assert merged.gateway_topology == MESH.gateway_topology


def test_a_part_that_can_not_be_read_is_left_out_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        own = settings(
            {
                "proxyHeaders": {"server": {"value": "50%"}},
                "gatewayTopology": {"numTrustedProxies": 2, "later": 1},
                "connectionSettings": {"httpIdleTimeout": "10s"},
            }
        )

    assert own.proxy_headers is None
    assert own.gateway_topology is None
    assert own.connection_settings is not None
    assert [record.part for record in caplog.records] == ["proxyHeaders", "gatewayTopology"]  # type: ignore[attr-defined]


def test_numbers_are_whole_that_metadata_has_as_floats() -> None:
    own = settings(
        {
            "gatewayTopology": {"numTrustedProxies": 2.0},
            "connectionSettings": {"httpMaxConcurrentStreams": 5.0},
        }
    )

    assert own.gateway_topology == GatewayTopology(num_trusted_proxies=2)
    assert own.connection_settings == ConnectionSettings(http_max_concurrent_streams=5)


def test_proxies_of_equal_settings_are_equal_and_have_one_hash() -> None:
    config: JSON = {
        "proxyHeaders": {"server": {"value": "a"}},
        "connectionSettings": {"httpMaxConcurrentStreams": 5},
    }

    assert settings(config) == settings(config)
    assert hash(settings(config)) == hash(settings(config))


def of_metadata(**metadata: Any) -> ProxySettings:
    return proxy_of(Node(id="sidecar~10.0.0.1~a.b~b.svc.x", metadata=metadata)).settings


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({"HTTP10": "1"}, ProxySettings(accepts_http10=True)),
        ({"HTTP10": "true"}, NO_SETTINGS),
        ({"HTTP10": ""}, NO_SETTINGS),
        ({"IDLE_TIMEOUT": "1m30s"}, ProxySettings(idle_timeout=Duration(90))),
        ({"IDLE_TIMEOUT": "0s"}, ProxySettings(idle_timeout=Duration(0))),
        ({"IDLE_TIMEOUT": ""}, NO_SETTINGS),
        ({"INBOUND_LISTENER_EXACT_BALANCE": "true"}, ProxySettings(balances_inbound=True)),
        ({"INBOUND_LISTENER_EXACT_BALANCE": True}, ProxySettings(balances_inbound=True)),
        ({"INBOUND_LISTENER_EXACT_BALANCE": "false"}, NO_SETTINGS),
    ],
)
def test_settings_that_are_node_metadata_of_their_own_are_read(
    metadata: dict[str, Any], wanted: ProxySettings, caplog: pytest.LogCaptureFixture
) -> None:
    assert of_metadata(**metadata) == wanted
    assert not caplog.records


@pytest.mark.parametrize("wrong", ["soon", "-5s", "5", 30.0, "100us", {"s": 1}, "9" * 200 + "s"])
def test_an_idle_timeout_that_can_not_be_read_is_reported_and_there_is_none(
    wrong: JSON, caplog: pytest.LogCaptureFixture
) -> None:
    assert of_metadata(IDLE_TIMEOUT=wrong) is NO_SETTINGS

    (record,) = caplog.records
    assert "IDLE_TIMEOUT" in record.message
    assert record.value == wrong  # type: ignore[attr-defined]
