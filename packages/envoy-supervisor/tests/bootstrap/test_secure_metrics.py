"""Metrics for callers with a certificate of the mesh only: on the real Envoy."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from envoy_supervisor import Address, BootstrapConfig, EnvoyConfig, render_bootstrap, running
from mesh_ca import Authority, load_or_create_authority
from mesh_sds import SdsConfig, TlsCertificate, TrustBundle, serving
from mesh_sds.testing import FakeSecrets
from mesh_testkit import PATIENCE_S
from supervised import FreePort, WithoutControlPlane, edited

HOST = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_or_create_authority(tmp_path / "ca", trust_domain="cluster.local")


async def fetch(port: int, path: str, tls: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls, server_hostname=HOST)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode())
        return await reader.read()
    finally:
        writer.close()


@pytest.fixture
def secrets(authority: Authority) -> FakeSecrets:
    key, chain = authority.issue_server_certificate([HOST])
    secrets = FakeSecrets()
    secrets.set(
        default=TlsCertificate(chain_pem=chain, private_key_pem=key),
        ROOTCA=TrustBundle(roots_pem=authority.root_pem),
    )
    return secrets


@pytest.fixture
def config(
    status_port: int,
    free_port: FreePort,
    bootstrap_config: BootstrapConfig,
    without_control_plane: WithoutControlPlane,
) -> EnvoyConfig:
    bootstrap = replace(
        bootstrap_config,
        status_target=Address(host=HOST, port=status_port),
        secure_prometheus_listener=Address(host=HOST, port=free_port()),
        secure_metrics_listener=Address(host=HOST, port=free_port()),
    )
    return without_control_plane(render_bootstrap(bootstrap))


def ports(config: EnvoyConfig) -> list[int]:
    listeners = edited(config)["static_resources"]["listeners"]
    return [each["address"]["socket_address"]["port_value"] for each in listeners]


async def test_only_callers_with_a_certificate_of_the_mesh_are_answered(
    config: EnvoyConfig, authority: Authority, secrets: FakeSecrets, tmp_path: Path
) -> None:
    stranger = ssl.create_default_context(cadata=authority.root_pem.decode())
    member = ssl.create_default_context(cadata=authority.root_pem.decode())
    key, chain = authority.issue_server_certificate(["prometheus.example"])
    (tmp_path / "member.pem").write_bytes(chain + key)
    member.load_cert_chain(tmp_path / "member.pem")
    stats, merged = ports(config)
    sds = SdsConfig(socket_path=config.directory / "SDS")
    async with serving(sds, secrets), running(config) as envoy:
        await envoy.wait_ready(PATIENCE_S)
        assert b"envoy_server_live" in await fetch(stats, "/stats/prometheus", member)
        assert b"404" in (await fetch(stats, "/config_dump", member)).splitlines()[0]
        for path in ("/stats/prometheus", "/metrics"):
            assert f"the agent was asked for {path}".encode() in await fetch(merged, path, member)
        for port in (stats, merged):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await fetch(port, "/stats/prometheus", stranger)
