"""Who reaches Envoy's own listeners commands nothing: only the exact pages, only reading."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from envoy_supervisor import (
    Address,
    BootstrapConfig,
    EnvoyConfig,
    EnvoyState,
    render_bootstrap,
    running,
)
from mesh_ca import load_or_create_authority
from mesh_sds import SdsConfig, TlsCertificate, TrustBundle, serving
from mesh_sds.testing import FakeSecrets
from mesh_testkit import PATIENCE_S
from supervised import (
    FORBIDDEN,
    FreePort,
    WithoutControlPlane,
    ask,
    edited,
    paths_to,
    saved,
)

HOST = "127.0.0.1"
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")
SECRET_PAGES = (b"BootstrapConfigDump", b"active loggers", b'"certificates"')
ALLOWED = {"/stats/prometheus", "/metrics", "/healthz/ready"}


class Upstream:
    """What stands behind the listeners, admin interface and agent alike: notes what arrives."""

    def __init__(self) -> None:
        self.arrived: set[tuple[str, str]] = set()
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.decode("latin-1").split()
            self.arrived.add((method, target))
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    server = await asyncio.start_server(upstream.answer, HOST, 0)
    upstream.port = server.sockets[0].getsockname()[1]
    yield upstream
    server.close()
    await server.wait_closed()


@pytest.fixture
def mesh(tmp_path: Path) -> tuple[FakeSecrets, ssl.SSLContext]:
    """The secrets of Envoy, and a caller with a certificate of the same mesh."""
    authority = load_or_create_authority(tmp_path / "ca", trust_domain="cluster.local")
    key, chain = authority.issue_server_certificate([HOST])
    secrets = FakeSecrets()
    secrets.set(
        default=TlsCertificate(chain_pem=chain, private_key_pem=key),
        ROOTCA=TrustBundle(roots_pem=authority.root_pem),
    )
    member = ssl.create_default_context(cadata=authority.root_pem.decode())
    (tmp_path / "member.pem").write_bytes(chain + key)
    member.load_cert_chain(tmp_path / "member.pem")
    return secrets, member


@pytest.fixture
def config(
    bootstrap_config: BootstrapConfig,
    free_port: FreePort,
    without_control_plane: WithoutControlPlane,
) -> EnvoyConfig:
    def listener() -> Address:
        return Address(host=HOST, port=free_port())

    bootstrap = replace(
        bootstrap_config,
        status_target=Address(host=HOST, port=1),
        prometheus_listener=listener(),
        readiness_listener=listener(),
        secure_prometheus_listener=listener(),
        secure_metrics_listener=listener(),
    )
    return without_control_plane(render_bootstrap(bootstrap))


def ports(config: EnvoyConfig) -> dict[str, int]:
    """The port of each listener by its stat prefix; those with TLS begin with `secure`."""
    found = {}
    for listener in edited(config)["static_resources"]["listeners"]:
        manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
        port = listener["address"]["socket_address"]["port_value"]
        found[manager["stat_prefix"]] = port
    return found


def led_to(config: EnvoyConfig, port: int) -> EnvoyConfig:
    """Put one upstream in the place of the admin interface and of the agent."""
    bootstrap = edited(config)
    for cluster in bootstrap["static_resources"]["clusters"]:
        if cluster["name"] in {"prometheus_stats", "agent"}:
            address: Any = {"socket_address": {"address": HOST, "port_value": port}}
            (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
            endpoint["endpoint"]["address"] = address
    return saved(config, bootstrap)


async def ask_each(
    requests: list[tuple[str, str]], port: int, *, tls: ssl.SSLContext | None = None
) -> list[bytes]:
    """Send each by HTTP/1.1 and HTTP/2, some at a time: a bad one takes a second."""
    at_once = asyncio.Semaphore(50)

    async def one(path: str, method: str, *, http2: bool) -> bytes:
        async with at_once:
            return await ask(port, method, path, http2=http2, tls=tls)

    both = (one(path, method, http2=http2) for path, method in requests for http2 in (False, True))
    return await asyncio.gather(*both)


async def test_only_exact_pages_read_by_get_or_head_ever_arrive(
    config: EnvoyConfig, upstream: Upstream, mesh: tuple[FakeSecrets, ssl.SSLContext]
) -> None:
    secrets, member = mesh
    led_to(config, upstream.port)
    sds = SdsConfig(socket_path=config.directory / "SDS")
    async with serving(sds, secrets), running(config) as envoy:
        await envoy.wait_ready(PATIENCE_S)
        for name, port in ports(config).items():
            tls = member if name.startswith("secure") else None
            tried = [(path, how) for path in paths_to(FORBIDDEN[0]) for how in ("GET", "POST")]
            tried += [(path, method) for path in ALLOWED for method in METHODS]
            await ask_each(tried, port, tls=tls)
    assert {method for method, _ in upstream.arrived} == {"GET", "HEAD"}
    assert {target.partition("?")[0] for _, target in upstream.arrived} == ALLOWED


async def test_the_admin_interface_obeys_no_order_through_the_metrics_port(
    bootstrap_config: BootstrapConfig,
    free_port: FreePort,
    without_control_plane: WithoutControlPlane,
) -> None:
    port = free_port()
    metrics = replace(bootstrap_config, prometheus_listener=Address(host=HOST, port=port))
    async with running(without_control_plane(render_bootstrap(metrics))) as envoy:
        await envoy.wait_ready(PATIENCE_S)
        tried = [
            (path, method)
            for target in FORBIDDEN
            for path in paths_to(target)
            for method in ("POST", "GET", "HEAD")
        ]
        for answer in await ask_each(tried, port):
            assert not any(page in answer for page in SECRET_PAGES), answer
        for http2 in (False, True):
            stats = await ask(port, "GET", "/stats/prometheus", http2=http2)
            assert b"envoy_server_live" in stats
        assert envoy.state is EnvoyState.READY
