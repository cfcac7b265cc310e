"""The metrics listeners that ask for a certificate: a real Envoy, between real neighbours."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from envoy.service.discovery.v3 import discovery_pb2

import envoy_supervisor
import xds_proxy
from certclient import OutputFilesConfig, SpiffeId, write_files
from certclient.testing import FakeAuthority, issued
from mesh_agent import AgentConfig, Flags, load_config
from mesh_agent.identity._workload_secrets import workload_secrets
from mesh_lifecycle import in_background
from mesh_status_server import Request, Response, http_server
from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane

# An address of its own: several runs may go on at once on one machine.
ADDRESS = f"127.63.{os.getpid() % 250}.1"
ENVOYS, MERGED = 15091, 15092
CONFIGURATION = (
    "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    "type.googleapis.com/envoy.config.listener.v3.Listener",
)


async def give_nothing(plane: ControlPlane) -> None:
    """Answer Envoy with no clusters and no listeners, with which it begins to serve its own."""
    while True:
        await _answer(await plane.accept())


async def _answer(stream: ControlPlaneStream) -> None:
    answered = set()
    while (raw := await stream.receive()) is not None:
        type_url = discovery_pb2.DiscoveryRequest.FromString(raw).type_url
        if type_url in CONFIGURATION and type_url not in answered:
            answered.add(type_url)
            response = discovery_pb2.DiscoveryResponse(
                type_url=type_url, version_info="1", nonce="1"
            )
            await stream.send(response.SerializeToString())


async def agents_own(request: Request) -> Response:
    """Answers as an agent that keeps its metrics on the machine."""
    return request.local_page_refusal() or Response.text(
        f"the agent was asked for {request.path}\n"
    )


def configuration(directory: Path, control_plane_address: str, envoy: Path) -> AgentConfig:
    proxy = {"discoveryAddress": control_plane_address, "controlPlaneAuthPolicy": "NONE"}
    environ = {
        "POD_NAME": "web-1",
        "POD_NAMESPACE": "shop",
        "INSTANCE_IP": ADDRESS,
        "MESH_AGENT_BIND_ADDRESS": ADDRESS,
        "PROXY_CONFIG": json.dumps({**proxy, "terminationDrainDuration": "0s"}),
        "ENVOY_SECURE_METRICS_PORT": str(ENVOYS),
        "ENVOY_SECURE_MERGED_METRICS_PORT": str(MERGED),
    }
    flags = Flags(envoy_path=str(envoy))
    return load_config(flags, environ=environ, directory=directory, version="1")


@pytest_asyncio.fixture
async def certificates(socket_dir: Path) -> Path:
    """Where the workload's certificate is mounted; the test shows it as well."""
    directory = socket_dir / "etc/certs"
    web = await issued(FakeAuthority(), SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/default"))
    write_files(OutputFilesConfig(directory=directory, mode=0o600), web)
    return directory


@pytest_asyncio.fixture
async def proxy(socket_dir: Path, certificates: Path, envoy_binary: Path) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(
            control_plane(methods=["StreamAggregatedResources"])
        )
        await stack.enter_async_context(in_background(give_nothing(plane), name="control-plane"))
        config = configuration(socket_dir, plane.address, envoy_binary)
        assert config.files is not None, f"found below {certificates}"
        await stack.enter_async_context(
            http_server(config.status.host, config.status.port, agents_own)
        )
        await stack.enter_async_context(workload_secrets(config))
        await stack.enter_async_context(xds_proxy.relaying(config.relay, ()))
        envoy = await stack.enter_async_context(envoy_supervisor.running(config.envoy))
        await envoy.wait_ready(timeout_s=60)
        yield


async def get(path: str, port: int, context: ssl.SSLContext | None) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(ADDRESS, port, ssl=context)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n".encode())
            return await reader.read()
        finally:
            writer.close()


async def said_in_spite(path: str, port: int, context: ssl.SSLContext | None) -> bytes:
    """What comes back where nothing should."""
    try:
        return await get(path, port, context)
    except (ssl.SSLError, ConnectionError):
        return b""


def client(certificates: Path, *, with_certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates / "root-cert.pem")
    context.check_hostname = False  # a workload's certificate has an identity, not a host name
    if with_certificate:
        context.load_cert_chain(certificates / "cert-chain.pem", certificates / "key.pem")
    return context


@pytest.mark.usefixtures("proxy")
async def test_metrics_are_served_to_callers_with_a_certificate_only(
    certificates: Path,
) -> None:
    known = client(certificates, with_certificate=True)
    envoys = await get("/stats/prometheus", ENVOYS, known)
    assert envoys.startswith(b"HTTP/1.1 200")
    assert b"envoy_server_live" in envoys
    for path in ("/stats/prometheus", "/metrics"):
        merged = await get(path, MERGED, known)
        assert f"the agent was asked for {path}".encode() in merged
    for path in ("/quitquitquit", "/debug/status"):
        assert (await get(path, MERGED, known)).startswith(b"HTTP/1.1 404")
    unknown = client(certificates, with_certificate=False)
    for port in (ENVOYS, MERGED):
        for context in (unknown, None):
            assert await said_in_spite("/stats/prometheus", port, context) == b""
