"""Collectors that the real Envoy sends to: over mutual TLS of the mesh, and over the xDS socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
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
    EnvoyConfig,
    LoadReportingService,
    MeshTls,
    MetricsService,
    StatsConfig,
    Target,
    UnixAddress,
    render_bootstrap,
    running,
)
from mesh_ca import Authority, load_or_create_authority
from mesh_sds import SdsConfig, TlsCertificate, TrustBundle, serving
from mesh_sds.testing import FakeSecrets

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
def envoy(envoy_binary: Path, socket_dir: Path) -> Callable[[BootstrapConfig], EnvoyConfig]:
    def config(bootstrap: BootstrapConfig) -> EnvoyConfig:
        rendered = render_bootstrap(bootstrap)
        # Nobody is there to answer, and Envoy would wait for that.
        del rendered["dynamic_resources"]
        (socket_dir / "bootstrap.json").write_text(json.dumps(rendered))
        return EnvoyConfig(
            binary=envoy_binary,
            bootstrap=socket_dir / "bootstrap.json",
            directory=socket_dir,
            concurrency=1,
        )

    return config


@pytest.fixture
def bootstrap(socket_dir: Path) -> BootstrapConfig:
    return BootstrapConfig(
        node_id="n",
        node_cluster="c",
        admin=UnixAddress(path=socket_dir / "admin"),
        xds_socket=socket_dir / "XDS",
        sds_socket=socket_dir / "SDS",
        stats=StatsConfig(flush_interval_s=0.1, inclusion_prefixes=("cluster.envoy_metrics",)),
    )


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
async def test_metrics_go_to_the_collector_of_the_mesh_and_to_nobody_else(
    identity: str,
    bootstrap: BootstrapConfig,
    envoy: Callable[[BootstrapConfig], EnvoyConfig],
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
        config = envoy(replace(bootstrap, metrics_service=service))
        sds = SdsConfig(socket_path=bootstrap.sds_socket)
        async with serving(sds, secrets), running(config) as running_envoy:
            await running_envoy.wait_ready(20)
            if identity == COLLECTOR:
                assert await called.get() == METRICS
                return
            refused = 0
            while not refused:
                stats = await running_envoy.admin.stats("fail_verify_san")
                refused = sum(int(value) for value in stats.values())
            assert called.empty()


async def test_loads_are_reported_to_the_control_plane(
    bootstrap: BootstrapConfig, envoy: Callable[[BootstrapConfig], EnvoyConfig]
) -> None:
    async with collecting(f"unix:{bootstrap.xds_socket}") as (called, _):
        config = envoy(replace(bootstrap, load_reporting=LoadReportingService()))
        async with running(config):
            assert await called.get() == LOADS
