"""Configuration on disk, the command `mesh-discovery` as a process, Envoys and their neighbours."""

import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mesh_ca import Authority
from mesh_ca.testing import signing_request
from mesh_traffic_capture import Backend
from xds_server import Admission, Node, Peer, UnixListener, XdsServer, serving, type_urls

sys.path.extend(
    str(Path(__file__).parents[2] / each / "tests" / "support")
    for each in ("istio-config", "mesh-model", "envoy-config", "mesh-findings", "discovery")
)

from capturing import CaptureLab, capture_lab, why_not
from documents import Documents
from models import Models
from planes import Envoy, Lab, Plane, Process, WorkloadSecrets, bootstrap, eventually, start
from scenarios import Scene, opened_scene


@pytest.fixture
def yaml() -> Documents:
    return Documents()


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
def model_of(tmp_path: Path) -> Models:
    return Models(tmp_path)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., Awaitable[Any]]:
    return eventually


@pytest.fixture
async def start_plane(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Plane]]]:
    """Start `mesh-discovery discovery` on free ports; believed: whom callers in plaintext name."""
    started: list[Process] = []

    async def begin(
        config_dir: Path,
        *arguments: str,
        command: tuple[str, ...] = ("-m", "mesh_discovery"),
        believed: bool = True,
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
            *(("--believe-plaintext",) if believed else ()),
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


@pytest.fixture
async def serve_secrets(socket_dir: Path) -> AsyncIterator[Callable[..., Awaitable[Path]]]:
    """Serve the certificate of a workload on a Unix socket, as its agent would."""

    async def admit(node: Node, peer: Peer) -> Admission[None]:  # noqa: ARG001
        return Admission(context=None)

    async with AsyncExitStack() as stack:

        async def begin(authority: Authority, identity: str, roots: bytes | None = None) -> Path:
            path = socket_dir / f"{identity.rpartition('/')[2]}-{id(authority)}.sock"
            secrets = WorkloadSecrets(authority, identity, roots or authority.root_pem)
            server = XdsServer({type_urls.SECRET: secrets}, admit=admit)
            server.set_ready()
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


@pytest.fixture
async def scene(tmp_path: Path, socket_dir: Path, envoy_binary: Path) -> AsyncIterator[Scene]:
    """Open a scene: a control plane in this process, Envoys and echo servers; see `scenarios`."""
    opened = opened_scene(tmp_path=tmp_path, socket_dir=socket_dir, envoy_binary=envoy_binary)
    async with opened as running:
        yield running


@pytest.fixture
async def redirected(
    request: pytest.FixtureRequest, tmp_path: Path, socket_dir: Path, envoy_binary: Path
) -> AsyncIterator[CaptureLab]:
    """Machines in network namespaces, whose connections our rules lead to real Envoys.

    Indirectly parametrized, by another backend than nft.
    """
    backend: Backend = getattr(request, "param", Backend.NFT)
    if reason := why_not(backend):
        pytest.skip(reason)
    async with capture_lab(tmp_path, socket_dir, envoy_binary, backend=backend) as lab:
        yield lab
