"""What the tests share: configuration on disk, the command as a process, Envoys, small servers."""

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

from mesh_ca import Authority
from mesh_ca.testing import signing_request
from mesh_discovery import ConfigLoader
from mesh_discovery.model._model import MeshModel, build_model
from xds_server import (
    Admission,
    Client,
    Generated,
    Node,
    Peer,
    PushRequest,
    Resource,
    UnixListener,
    Watch,
    XdsServer,
    serving,
    type_urls,
)

DEADLINE_S = 60.0  # for what takes a second; a slow machine under load gets all of it

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: default}}
spec:
  hosts: [{name}.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: {port}, name: {protocol}, targetPort: {target}}}
  endpoints:
  - {{address: {address}, serviceAccount: {name}}}
"""


def service(name: str, address: str, port: int, target: int, protocol: str = "http") -> str:
    return SERVICE.format(name=name, address=address, port=port, target=target, protocol=protocol)


def peer_authentication(mode: str, *, namespace: str = "istio-system") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: default, namespace: {namespace}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


@dataclass(frozen=True)
class Yaml:
    """Documents as users write them."""

    service: Callable[..., str] = field(default=service)
    peer_authentication: Callable[..., str] = field(default=peer_authentication)


@pytest.fixture
def yaml() -> Yaml:
    return Yaml()


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "config"
    directory.mkdir()
    return directory


@pytest.fixture
def replace() -> Callable[[Path, str], None]:
    """Write a file as a whole: one cut short may be a good configuration, too."""

    def write(file: Path, text: str) -> None:
        new = file.with_suffix(".new")
        new.write_text(text)
        new.rename(file)

    return write


@pytest.fixture
def model_of(tmp_path: Path) -> Callable[..., MeshModel]:
    """Build a model of YAML documents."""
    numbers = count()

    def build(*documents: str) -> MeshModel:
        directory = tmp_path / f"model-{next(numbers)}"
        directory.mkdir()
        (directory / "all.yaml").write_text("---\n".join(documents))
        load = ConfigLoader(directory).load()
        assert not load.problems, [str(each) for each in load.problems]
        return build_model(load.snapshot)

    return build


async def eventually(
    check: Callable[[], Awaitable[Any]], *, what: str, wanted: object = None
) -> Any:
    """Ask until the answer is the wanted one, or any truthy one.

    The last answer or error is shown when it never is.
    """
    last: object = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    last = await check()
                except (OSError, aiohttp.ClientError) as error:
                    last = error
                else:
                    if last if wanted is None else last == wanted:
                        return last
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"{what} did not happen; last seen: {last!r}")


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., Awaitable[Any]]:
    return eventually


@dataclass
class Process:
    """A child process whose output is gathered."""

    process: asyncio.subprocess.Process
    reader: asyncio.Task[None]
    output: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.output)

    async def stop(self) -> int:
        """Stop as users do, and return the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self.process.wait()
        finally:
            if self.process.returncode is None:
                self.process.kill()
            code = await self.process.wait()
            await self.reader
        return code

    async def end(self, name: str) -> None:
        """Stop, and show with a failed test what the process said."""
        try:
            await self.stop()
        finally:
            sys.stdout.write(f"--- output of {name}:\n{self.text}")


async def start(*command: str, cwd: Path, env: dict[str, str] | None = None) -> Process:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            output.append(line.decode(errors="replace"))

    return Process(process, asyncio.create_task(read(), name="output"), output)


@dataclass
class Plane:
    """A control plane process and where it listens."""

    process: Process
    http: str
    grpc: str
    secure_grpc: str
    monitoring: str
    ca_dir: Path

    async def get(self, path: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.monitoring}{path}") as response,
        ):
            if response.content_type == "application/json":
                return await response.json()
            return await response.text()


@pytest.fixture
async def start_plane(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Plane]]]:
    """Start `mesh-discovery discovery` on free ports."""
    started: list[Process] = []

    async def begin(
        config_dir: Path,
        *arguments: str,
        command: tuple[str, ...] = ("-m", "mesh_discovery"),
        **env: str,
    ) -> Plane:
        ca_dir = tmp_path / "ca"
        process = await start(
            sys.executable,
            *command,
            "discovery",
            f"--config-dir={config_dir}",
            f"--ca-dir={ca_dir}",
            "--http-addr=127.0.0.1:0",
            "--grpc-addr=127.0.0.1:0",
            "--secure-grpc-addr=127.0.0.1:0",
            "--monitoring-addr=127.0.0.1:0",
            "--log-as-json",
            *arguments,
            cwd=tmp_path,
            env={**os.environ, **env},
        )
        started.append(process)

        async def ready() -> dict[str, Any] | None:
            assert process.process.returncode is None, process.text
            for line in process.output:
                if line.startswith("{") and json.loads(line)["msg"] == "control plane ready":
                    found: dict[str, Any] = json.loads(line)
                    return found
            return None

        facts = await eventually(ready, what="control plane start")
        return Plane(
            process=process,
            ca_dir=ca_dir,
            **{key: facts[key] for key in ("http", "grpc", "secure_grpc", "monitoring")},
        )

    yield begin
    for process in started:
        await process.end("the control plane")


def bootstrap(node: dict[str, Any], *, admin: str, xds: str, sds: Path | None) -> dict[str, Any]:
    """Make the smallest bootstrap that takes everything over ADS."""
    http2 = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }

    def address(text: str) -> dict[str, Any]:
        host, _, port = text.rpartition(":")
        return {"socket_address": {"address": host, "port_value": int(port)}}

    def cluster(name: str, where: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": name,
            "type": "STATIC",
            "connect_timeout": "1s",
            "typed_extension_protocol_options": http2,
            "load_assignment": {
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": where}}]}],
            },
        }

    source = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    clusters = [cluster("xds-grpc", address(xds))]
    if sds is not None:
        clusters.append(cluster("sds-grpc", {"pipe": {"path": str(sds)}}))
    return {
        "node": node,
        "admin": {"address": address(admin)},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            },
            "lds_config": source,
            "cds_config": source,
        },
        "static_resources": {"clusters": clusters},
        # As the bootstraps of mesh-agent and of Istio's agent have it.
        "stats_config": {
            "use_all_default_tags": False,
            "stats_tags": [{"tag_name": "cluster_name", "regex": r"^cluster\.(([^;]+);\.)"}],
        },
    }


@dataclass
class Envoy:
    """A real Envoy."""

    process: Process
    admin: str
    node_id: str

    async def get(self, path: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.admin}{path}") as response,
        ):
            if response.content_type == "application/json":
                return await response.json(content_type=None)
            return await response.text()

    async def listeners(self) -> set[str]:
        text: str = await self.get("/listeners")
        return {line.partition("::")[0] for line in text.splitlines()}

    async def stat(self, name: str) -> int:
        found: str = await self.get(f"/stats?filter=^{name}$")
        return int(found.rpartition(":")[2]) if found.strip() else 0


@pytest.fixture
async def start_envoy(
    tmp_path: Path, envoy_binary: Path, free_port: Callable[..., int]
) -> AsyncIterator[Callable[..., Awaitable[Envoy]]]:
    """Start an Envoy as the sidecar `name` at 127.x.y.1, its app at .2, outbound at .3."""
    started: dict[str, Process] = {}

    async def begin(
        name: str, network: str, xds: str, sds: Path | None = None, **metadata: Any
    ) -> Envoy:
        node_id = f"sidecar~{network}.1~{name}.default~default.svc.cluster.local"
        admin = f"{network}.1:{free_port(f'{network}.1')}"
        node = {
            "id": node_id,
            "cluster": name,
            "metadata": {
                "INSTANCE_IPS": f"{network}.1",
                "APP_ADDRESS": f"{network}.2",
                "OUTBOUND_BIND_ADDRESS": f"{network}.3",
                "SERVICE_ACCOUNT": name,
                **metadata,
            },
        }
        file = tmp_path / f"envoy-{name}.json"
        file.write_text(json.dumps(bootstrap(node, admin=admin, xds=xds, sds=sds)))
        process = await start(
            str(envoy_binary),
            "--config-path",
            str(file),
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--log-level",
            "warning",
            cwd=tmp_path,
        )
        started[name] = process
        envoy = Envoy(process, admin, node_id)

        async def live() -> bool:
            assert process.process.returncode is None, process.text
            return bool((await envoy.get("/server_info"))["state"] == "LIVE")

        await eventually(live, what=f"Envoy {name} start")
        return envoy

    yield begin
    for name, process in started.items():
        await process.end(f"Envoy {name}")


@pytest.fixture
async def serve_app(
    free_port: Callable[..., int],
) -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Serve an application that answers with its name and the headers it got, as JSON.

    On a port that its sidecar can have too, at another address.
    """
    async with AsyncExitStack() as stack:

        async def begin(name: str, host: str) -> int:
            async def answer(request: web.Request) -> web.Response:
                return web.json_response({"app": name, "headers": dict(request.headers.items())})

            app = web.Application()
            app.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            port = free_port(host)
            await web.TCPSite(runner, host, port).start()
            return port

        yield begin


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


class _Secrets:
    """The SDS of a workload agent: one certificate and the roots."""

    def __init__(self, authority: Authority, identity: str, roots: bytes) -> None:
        key, csr = signing_request()
        chain = authority.sign(csr, identities=[identity]).chain_pem
        certificate = secret_pb2.Secret(name="default")
        certificate.tls_certificate.certificate_chain.inline_bytes = b"".join(chain[:-1])
        certificate.tls_certificate.private_key.inline_bytes = key
        bundle = secret_pb2.Secret(name="ROOTCA")
        bundle.validation_context.trusted_ca.inline_bytes = roots
        self._resources = [Resource.pack(each, name=each.name) for each in (certificate, bundle)]

    def generate(
        self,
        client: Client[None],  # noqa: ARG002
        watch: Watch,
        push: PushRequest | None,  # noqa: ARG002
    ) -> Generated:
        return Generated(resources=[each for each in self._resources if watch.covers(each.name)])


@pytest.fixture
async def serve_secrets(socket_dir: Path) -> AsyncIterator[Callable[..., Awaitable[Path]]]:
    """Serve the certificate of a workload on a Unix socket, as its agent would."""

    async def admit(node: Node, peer: Peer) -> Admission[None]:  # noqa: ARG001
        return Admission(context=None)

    async with AsyncExitStack() as stack:

        async def begin(authority: Authority, identity: str, roots: bytes | None = None) -> Path:
            path = socket_dir / f"{identity.rpartition('/')[2]}-{id(authority)}.sock"
            secrets = _Secrets(authority, identity, roots or authority.root_pem)
            server = XdsServer({type_urls.SECRET: secrets}, admit=admit)
            server.mark_ready()
            await stack.enter_async_context(serving(server, [UnixListener(path=path)]))
            return path

        yield begin


@pytest.fixture
def client_context(tmp_path: Path) -> Callable[..., ssl.SSLContext]:
    """Make a TLS client with a certificate of an authority, as a mesh workload would have."""

    def make(authority: Authority, identity: str) -> ssl.SSLContext:
        key, csr = signing_request()
        chain = authority.sign(csr, identities=[identity]).chain_pem
        file = tmp_path / f"client-{id(chain)}.pem"
        file.write_bytes(key + b"".join(chain[:-1]))
        context = ssl.create_default_context(cadata=authority.root_pem.decode())
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["istio"])
        context.load_cert_chain(file)
        return context

    return make


@dataclass(frozen=True)
class Lab:
    """All that a mesh on this machine needs."""

    config_dir: Path
    plane: Callable[..., Awaitable[Plane]]
    envoy: Callable[..., Awaitable[Envoy]]
    app: Callable[..., Awaitable[int]]
    secrets: Callable[..., Awaitable[Path]]
    session: aiohttp.ClientSession

    def write(self, **documents: str) -> None:
        for name, text in documents.items():
            (self.config_dir / f"{name}.yaml").write_text(text)


@pytest.fixture
def lab(  # noqa: PLR0917
    config_dir: Path,
    start_plane: Callable[..., Awaitable[Plane]],
    serve_app: Callable[..., Awaitable[int]],
    serve_secrets: Callable[..., Awaitable[Path]],
    session: aiohttp.ClientSession,
    start_envoy: Callable[..., Awaitable[Envoy]],  # the last to start is the first to stop
) -> Lab:
    return Lab(config_dir, start_plane, start_envoy, serve_app, serve_secrets, session)
