"""Machines with redirected sidecars, a control plane, and all that goes between them."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web

from capturing._namespaces import Namespace, namespace
from capturing._rules import PROXY_GROUP, capture_config
from capturing._wire import Wire, open_wire
from mesh_discovery.comparison._differences import Difference, differences
from mesh_discovery.comparison._expected import expected_of
from mesh_discovery.comparison._held import read_config_dump
from mesh_traffic_capture import Applied, Backend, apply_capture
from planes import Process, WorkloadSecrets, bootstrap, eventually, start
from scenarios._plane import ScenePlane, refusals, scene_plane
from xds_server import Admission, Node, Peer, UnixListener, XdsServer, serving, type_urls

MESH_CONFIG = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  accessLogFile: /dev/stdout
  accessLogEncoding: JSON
  defaultConfig: {drainDuration: 1s}
"""
_SUBNET, _SUBNET6 = "10.77.0", "fd77::"


@dataclass
class Machine:
    """A namespace with an address: a pod, or a machine outside of the mesh."""

    name: str
    namespace: Namespace
    address: str
    address6: str
    device: str
    """The socket of the switch that it is plugged in."""
    process: Process | None = None
    admin: Path | None = None
    node_id: str = ""

    async def admin_text(self, path: str) -> str:
        connector = aiohttp.UnixConnector(path=str(self.admin))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"http://envoy{path}") as response,
        ):
            return await response.text()

    async def stat(self, name: str) -> int:
        """Return a counter or gauge by its exact name; 0 if there is none."""
        text = await self.admin_text(f"/stats?filter={quote(name, safe='')}")
        found = dict(line.rpartition(": ")[::2] for line in text.splitlines())
        return int(found.get(name, 0))

    def log(self) -> list[dict[str, Any]]:
        """Return the access log so far."""
        output = "".join(self.process.output) if self.process is not None else ""
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    async def logged(self, **fields: object) -> dict[str, Any]:
        """Wait for an entry of the access log with these values, and return it."""

        async def look() -> dict[str, Any] | None:
            for each in reversed(self.log()):
                if all(each.get(name) == value for name, value in fields.items()):
                    return dict(each)
            return None

        found: dict[str, Any] = await eventually(look, what=f"a log entry with {fields}")
        return found


@dataclass
class CaptureLab:
    """A switch with machines on it."""

    plane: ScenePlane
    switch: Namespace
    tmp_path: Path
    socket_dir: Path
    envoy_binary: Path
    backend: Backend
    """What applies the rules of the machines."""
    stack: AsyncExitStack
    machines: dict[str, Machine] = field(default_factory=dict)

    def write(self, **documents: str) -> None:
        """Write documents, and serve them."""
        self.plane.write({name: dedent(text) for name, text in documents.items()})
        problems = self.plane.load()
        assert not problems, "\n".join(map(str, problems))

    async def apply(self, **documents: str) -> None:
        """Write documents, and wait until every Envoy has what they make."""
        self.write(**documents)
        for each in self.machines.values():
            if each.process is not None:
                await self._has_everything(each)

    async def eventually(
        self, check: Callable[[], Awaitable[Any]], *, what: str, wanted: object = None
    ) -> Any:
        """Ask until the answer is the wanted one, or any truthy one."""
        return await eventually(check, what=what, wanted=wanted)

    def machine(self, name: str) -> Machine:
        """Plug in a machine."""
        number = len(self.machines) + 1
        network = self.stack.enter_context(namespace())
        address, address6 = f"{_SUBNET}.{number}", f"{_SUBNET6}{number}"
        device = f"p{number}"
        self.switch.ip(
            f"link add {device} type veth peer name eth0 netns {network.name}",
            f"link set {device} master switch up",
        )
        network.ip(
            "link set eth0 up",
            f"addr add {address}/24 dev eth0",
            f"addr add {address6}/64 dev eth0 nodad",
            f"route add default via {_SUBNET}.254",
            f"route add default via {_SUBNET6}fe",
        )
        self.machines[name] = Machine(name, network, address, address6, device)
        return self.machines[name]

    def capture(self, machine: Machine, *, mode: str = "REDIRECT", **changes: Any) -> Applied:
        """Apply the rules to a machine."""
        config = capture_config(mode, **changes)
        return machine.namespace.run(lambda: apply_capture(config, backend=self.backend))

    async def sidecar(
        self,
        machine: Machine,
        *,
        mode: str = "REDIRECT",
        namespace: str = "a",
        service_account: str | None = None,
        metadata: dict[str, Any] | None = None,
        addresses: tuple[str, ...] | None = None,
        **capture: Any,
    ) -> Machine:
        """Capture a machine's connections, and start its sidecar.

        capture: fields of a `CaptureConfig` that are not as injection has them.
        """
        account = service_account or machine.name
        own = addresses or (machine.address,)
        machine.node_id = (
            f"sidecar~{own[0]}~{machine.name}.{namespace}~{namespace}.svc.cluster.local"
        )
        node = {
            "id": machine.node_id,
            "cluster": machine.name,
            "metadata": {
                "INSTANCE_IPS": ",".join(own),
                "NAMESPACE": namespace,
                "SERVICE_ACCOUNT": account,
                "INTERCEPTION_MODE": mode,
                **(metadata or {}),
            },
        }
        self.capture(machine, mode=mode, **capture)
        machine.admin = self.socket_dir / f"{machine.name}-admin.sock"
        sds = await self._secrets(machine.name, namespace, account)
        file = self.tmp_path / f"envoy-{machine.name}.json"
        config = bootstrap(
            node, admin=str(machine.admin), xds=str(self.socket_dir / "xds.sock"), sds=sds
        )
        file.write_text(json.dumps(config))
        machine.process = await start(
            *("ip", "netns", "exec", machine.namespace.name),
            *("setpriv", "--regid", str(PROXY_GROUP), "--clear-groups", "--"),
            *(str(self.envoy_binary), "--config-path", str(file), "--disable-hot-restart"),
            *("--concurrency", "1", "--log-level", "warning"),
            *("--file-flush-interval-msec", "20", "--drain-time-s", "1"),
            cwd=self.tmp_path,
        )
        self.stack.callback(machine.admin.unlink, missing_ok=True)
        self.stack.push_async_callback(machine.process.end, f"Envoy {machine.name}")
        await self._has_everything(machine)
        return machine

    async def serve_http(
        self,
        machine: Machine,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        address: str = "::",
    ) -> None:
        """Serve an application that answers with its name, what it sees and where it was called."""
        runner = await self._application(machine)
        await web.SockSite(runner, self._listening(machine, port, address), ssl_context=tls).start()

    async def serve_http_on_socket(self, machine: Machine, path: Path) -> None:
        """Serve the same on a Unix socket."""
        self.stack.callback(path.unlink, missing_ok=True)
        await web.UnixSite(await self._application(machine), str(path)).start()

    async def _application(self, machine: Machine) -> web.AppRunner:
        def spelled(name: object) -> str:
            return str(name[0]) if isinstance(name, tuple) else str(name)

        async def answer(request: web.Request) -> web.Response:
            assert request.transport is not None
            return web.json_response(
                {
                    "app": machine.name,
                    "peer": spelled(request.transport.get_extra_info("peername")),
                    "local": spelled(request.transport.get_extra_info("sockname")),
                    "headers": {name.lower(): value for name, value in request.headers.items()},
                }
            )

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        return runner

    async def serve_tcp(self, machine: Machine, port: int, *, banner: bytes = b"") -> None:
        """Serve an application that greets, and answers each line with its name and the line."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(banner)
            try:
                while data := await reader.readline():
                    writer.write(machine.name.encode() + b":" + data)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(answer, sock=self._listening(machine, port))
        self.stack.callback(server.close)

    def wire(self, machine: Machine) -> Wire:
        """Begin to gather what goes between a machine and others."""
        opened_wire = self.switch.run(lambda: open_wire(machine.device))
        self.stack.callback(opened_wire.close)
        return opened_wire

    def _listening(self, machine: Machine, port: int, address: str = "::") -> socket.socket:
        listener = machine.namespace.socket(socket.AF_INET6)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
        listener.listen()
        listener.setblocking(False)
        return listener

    async def _has_everything(self, machine: Machine) -> None:
        async def look() -> list[str]:
            process = machine.process
            assert process is not None
            assert process.process.returncode is None, process.text
            refused = refusals(self.plane.server.clients())
            assert not refused, refused
            client = self.plane.client(machine.node_id)
            if client is None or not self.plane.is_built:
                return ["not connected"]
            expected = expected_of(self.plane.context, self.plane.proxy(client))
            held = read_config_dump(
                json.loads(await machine.admin_text("/config_dump?include_eds"))
            )
            return [
                str(each)
                for each in differences(expected, held)
                if each.type == "listener" or each.difference is not Difference.EXTRA
            ]

        await eventually(look, wanted=[], what=f"the configuration at {machine.name}")

    async def _secrets(self, name: str, namespace: str, service_account: str) -> Path:
        path = self.socket_dir / f"{name}-sds.sock"
        trust_domain = self.plane.context.model.trust_domain
        identity = f"spiffe://{trust_domain}/ns/{namespace}/sa/{service_account}"
        authority = self.plane.authority
        secrets = WorkloadSecrets(authority, identity, authority.root_pem)
        server = XdsServer({type_urls.SECRET: secrets}, admit=_admit_all)
        server.set_ready()
        await self.stack.enter_async_context(serving(server, [UnixListener(path=path)]))
        return path


async def _admit_all(node: Node, peer: Peer) -> Admission[None]:  # noqa: ARG001
    return Admission(context=None)


@asynccontextmanager
async def capture_lab(
    tmp_path: Path, socket_dir: Path, envoy_binary: Path, *, backend: Backend
) -> AsyncIterator[CaptureLab]:
    """Set up a control plane and a switch, without machines."""
    directory = tmp_path / "config"
    directory.mkdir()
    (directory / "mesh_config.yaml").write_text(MESH_CONFIG)
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(scene_plane(directory, tmp_path / "ca"))
        xds = UnixListener(path=socket_dir / "xds.sock")
        await stack.enter_async_context(serving(plane.server, [xds]))
        switch = stack.enter_context(namespace())
        switch.ip(
            "link add switch type bridge",
            "link set switch up",
            f"addr add {_SUBNET}.254/24 dev switch",
            f"addr add {_SUBNET6}fe/64 dev switch nodad",
        )
        yield CaptureLab(plane, switch, tmp_path, socket_dir, envoy_binary, backend, stack)
