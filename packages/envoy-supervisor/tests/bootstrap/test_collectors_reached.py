"""Collectors that the real Envoy sends to: over mutual TLS of the mesh, and over the xDS socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from envoy_supervisor import (
    BootstrapConfig,
    LoadReportingService,
    MeshTls,
    MetricsService,
    StatsConfig,
    Target,
    render_bootstrap,
    running,
)
from mesh_ca import Authority, load_or_create_authority
from mesh_sds import SdsConfig, TlsCertificate, TrustBundle, serving
from mesh_sds.testing import FakeSecrets
from mesh_testkit import PATIENCE_S, until
from supervised import WithoutControlPlane

HOST = "127.0.0.1"
COLLECTOR = "spiffe://cluster.local/ns/monitoring/sa/collector"
METRICS = "/envoy.service.metrics.v3.MetricsService/StreamMetrics"
LOADS = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"


def handler(method: str, called: asyncio.Queue[str]) -> grpc.GenericRpcHandler[bytes, bytes]:
    """Takes whatever is streamed to a method, and tells that it was called."""

    async def take(
        requests: AsyncIterator[bytes], _: grpc.aio.ServicerContext[bytes, bytes]
    ) -> bytes:
        async for _request in requests:
            called.put_nowait(method)
        return b""

    _, service, name = method.split("/")
    return grpc.method_handlers_generic_handler(
        service, {name: grpc.stream_unary_rpc_method_handler(take)}
    )


@asynccontextmanager
async def collecting(
    address: str, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[tuple[asyncio.Queue[str], int]]:
    called, server = asyncio.Queue[str](), grpc.aio.server()
    server.add_generic_rpc_handlers((handler(METRICS, called), handler(LOADS, called)))
    port = (
        server.add_insecure_port(address)
        if credentials is None
        else server.add_secure_port(address, credentials)
    )
    await server.start()
    try:
        yield called, port
    finally:
        await server.stop(None)


async def first_call(called: asyncio.Queue[str]) -> str:
    await until(lambda: not called.empty(), what="a call of Envoy's")
    return called.get_nowait()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_or_create_authority(tmp_path / "ca", trust_domain="cluster.local")


def certificate(authority: Authority, identity: str) -> tuple[bytes, bytes]:
    """A key and a chain for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    csr = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    issued = authority.sign(csr, identities=[identity], lifetime=timedelta(hours=1))
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return key_pem, b"".join(issued.chain_pem[:-1])


@pytest.fixture
def bootstrap(bootstrap_config: BootstrapConfig) -> BootstrapConfig:
    stats = StatsConfig(flush_interval_s=0.1, inclusion_prefixes=("cluster.envoy_metrics",))
    return replace(bootstrap_config, stats=stats)


@pytest.fixture
def secrets(authority: Authority) -> FakeSecrets:
    key, chain = certificate(authority, "spiffe://cluster.local/ns/shop/sa/web")
    secrets = FakeSecrets()
    secrets.set(
        default=TlsCertificate(chain_pem=chain, private_key_pem=key),
        ROOTCA=TrustBundle(roots_pem=authority.root_pem),
    )
    return secrets


@pytest.mark.parametrize("identity", [COLLECTOR, "spiffe://cluster.local/ns/shop/sa/other"])
async def test_metrics_go_to_the_collector_of_the_mesh_and_to_no_other(
    identity: str,
    bootstrap: BootstrapConfig,
    without_control_plane: WithoutControlPlane,
    authority: Authority,
    secrets: FakeSecrets,
) -> None:
    credentials = grpc.ssl_server_credentials(
        [certificate(authority, identity)], authority.root_pem, require_client_auth=True
    )
    async with collecting(f"{HOST}:0", credentials) as (called, port):
        service = MetricsService(
            target=Target(host=HOST, port=port), tls=MeshTls(identities=(COLLECTOR,))
        )
        config = without_control_plane(
            render_bootstrap(replace(bootstrap, metrics_service=service))
        )
        sds = SdsConfig(socket_path=bootstrap.sds_socket)
        async with serving(sds, secrets), running(config) as envoy:
            await envoy.wait_ready(PATIENCE_S)
            if identity == COLLECTOR:
                assert await first_call(called) == METRICS
                return

            async def is_refused() -> bool:
                stats = await envoy.admin.stats("fail_verify_san")
                return any(int(value) for value in stats.values())

            await until(is_refused, what="the refusal of the collector")
            assert called.empty()


async def test_loads_are_reported_to_the_control_plane(
    bootstrap: BootstrapConfig, without_control_plane: WithoutControlPlane
) -> None:
    async with collecting(f"unix:{bootstrap.xds_socket}") as (called, _):
        with_loads = replace(bootstrap, load_reporting=LoadReportingService())
        async with running(without_control_plane(render_bootstrap(with_loads))):
            assert await first_call(called) == LOADS
