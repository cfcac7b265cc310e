"""A scene: everything that one test with real Envoys needs."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from mesh_configfile import Problem
from mesh_discovery.comparison._differences import Difference, differences
from mesh_discovery.comparison._expected import expected_of
from mesh_discovery.comparison._held import read_config_dump
from mesh_testkit import find_free_port
from mesh_testkit.certificates import Authority as OutsideAuthority
from planes import Envoy, WorkloadSecrets, bootstrap, eventually, start
from scenarios._echo import Echo
from scenarios._envoys import MeshEnvoy, session_at
from scenarios._http2 import VersionEcho
from scenarios._networks import Network, claimed_network
from scenarios._plane import Refused, ScenePlane, refusals, scene_plane
from scenarios._reviews import SERVICE, Reviews
from scenarios._tcp_echo import TcpEcho
from xds_server import Admission, Node, Peer, UnixListener, XdsServer, serving, type_urls

MESH_CONFIG = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  accessLogFile: /dev/stdout
  accessLogEncoding: JSON
  defaultConfig: {drainDuration: 1s}
"""

_LATER = {Difference.EXTRA}
"""Removed clusters and routes stay while listeners drain."""


@dataclass(repr=False)
class Scene:
    """A control plane, Envoys and echo servers on a network of their own."""

    plane: ScenePlane
    network: Network
    tmp_path: Path
    socket_dir: Path
    envoy_binary: Path
    envoys: dict[str, MeshEnvoy] = field(default_factory=dict)
    authority: OutsideAuthority = field(default_factory=OutsideAuthority)
    """An authority outside of the mesh, for `tls` and the certificates of gateways."""
    _ports: dict[int, int] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    # The configuration.

    async def apply(
        self, *, mistaken: bool = False, wait: bool = True, **documents: str | None
    ) -> Sequence[Problem]:
        """Write documents, or remove those that are None, and wait until every Envoy has them.

        A document `mesh_config=None` is the default one again. Returns the problems, which fail the
        test unless it says that there are some.
        """
        nacks = self._nacks()
        if "mesh_config" in documents and documents["mesh_config"] is None:
            documents["mesh_config"] = MESH_CONFIG
        self.plane.write({name: dedent(text) if text else None for name, text in documents.items()})
        problems = self.plane.load()
        assert mistaken or not problems, "\n".join(map(str, problems))
        if wait:
            await self.settled(since=nacks)
        return problems

    async def settled(self, *, since: Mapping[str, int] | None = None) -> None:
        """Wait until every Envoy has all that it would be given."""
        before = since if since is not None else self._nacks()

        async def built() -> bool:
            return self.plane.is_built

        await eventually(built, what="the new configuration being served")
        for each in self.envoys.values():
            await self._has_everything(each, before)

    async def differences(self, envoy: MeshEnvoy, *, extras: bool = False) -> list[str]:
        """Return how an Envoy differs from what it would be given.

        extras: also clusters and routes that it still has, as listeners that drain may use them.
        """
        client = self.plane.client(envoy.node_id)
        if client is None:
            return [f"{envoy.name} is not connected"]
        expected = expected_of(self.plane.fresh_context(), self.plane.proxy(client))
        held = read_config_dump(await envoy.dump())
        return [
            str(each)
            for each in differences(expected, held)
            if extras or each.type == "listener" or each.difference not in _LATER
        ]

    async def _has_everything(self, envoy: MeshEnvoy, nacks: Mapping[str, int]) -> None:
        async def look() -> bool | list[str]:
            assert envoy.process.process.returncode is None, envoy.process.text
            if self._nacks().get(envoy.node_id, 0) > nacks.get(envoy.node_id, 0):
                raise Refused("\n".join(refusals(self.plane.server.clients())))
            return await self.differences(envoy)

        await eventually(look, wanted=[], what=f"the configuration at {envoy.name}")

    def refused(self) -> list[str]:
        """Return all that the Envoys have refused so far, in their own words."""
        said = [
            f"{envoy.name}: {line}"
            for envoy in self.envoys.values()
            for line in envoy.process.text.splitlines()
            if "gRPC config for" in line and " rejected: " in line
        ]
        return said or [f"{name}: {count} times" for name, count in self._nacks().items() if count]

    def _nacks(self) -> dict[str, int]:
        return {
            client.node.id: sum(each.nacks for each in client.types.values())
            for client in self.plane.server.clients()
        }

    # The proxies.

    async def sidecar(
        self,
        name: str | None = None,
        *,
        namespace: str = "a",
        service_account: str = "c",
        labels: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        address: str | None = None,
        delta: bool = False,
    ) -> MeshEnvoy:
        """Start the Envoy of a workload; `address` is one of this network, where the service's
        endpoint is. delta: it speaks the delta dialect of xDS.
        """
        return await self._start(
            "sidecar", name, namespace, service_account, labels, metadata, address, delta=delta
        )

    async def router(
        self,
        name: str | None = None,
        *,
        namespace: str = "b",
        service_account: str = "gw",
        labels: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MeshEnvoy:
        """Start a gateway's Envoy, labelled `istio: ingressgateway` unless labels are given."""
        found = labels if labels is not None else {"istio": "ingressgateway"}
        return await self._start("router", name, namespace, service_account, found, metadata, None)

    async def _start(  # noqa: PLR0917
        self,
        kind: str,
        name: str | None,
        namespace: str,
        service_account: str,
        labels: Mapping[str, str] | None,
        metadata: Mapping[str, Any] | None,
        address: str | None,
        *,
        delta: bool = False,
    ) -> MeshEnvoy:
        name = name or f"{service_account}-{len(self.envoys)}"
        own = address or self.network.address()
        app, outbound = self.network.address(), self.network.address()
        node_id = f"{kind}~{own}~{name}.{namespace}~{namespace}.svc.cluster.local"
        node = {
            "id": node_id,
            "cluster": f"{name}.{namespace}",
            "metadata": {
                "INSTANCE_IPS": own,
                "NAMESPACE": namespace,
                "SERVICE_ACCOUNT": service_account,
                "LABELS": dict(labels or {}),
                **({"INTERCEPTION_MODE": "NONE"} if kind == "sidecar" else {}),
                "APP_ADDRESS": app,
                "OUTBOUND_BIND_ADDRESS": outbound,
                **(metadata or {}),
            },
        }
        locality = node["metadata"].pop("LOCALITY", None)  # type: ignore[attr-defined]
        if locality is not None:
            node["locality"] = locality
        sds = await self._secrets(namespace, service_account)
        admin = f"{own}:{find_free_port(own)}"
        file = self.tmp_path / f"envoy-{name}.json"
        config = bootstrap(node, admin=admin, xds=self.plane.grpc, sds=sds, delta=delta)
        file.write_text(json.dumps(config))
        process = await start(
            str(self.envoy_binary),
            *("--config-path", str(file), "--disable-hot-restart", "--concurrency", "1"),
            *("--log-level", "warning", "--file-flush-interval-msec", "20"),
            *("--drain-time-s", "1"),
            cwd=self.tmp_path,
        )
        self._stack.push_async_callback(process.end, f"Envoy {name}")
        session = session_at(outbound)
        self._stack.push_async_callback(session.close)
        envoy = MeshEnvoy(
            name=name,
            node_id=node_id,
            address=own,
            app_address=app,
            outbound_address=outbound,
            envoy=Envoy(process, admin, node_id),
            session=session,
        )
        self.envoys[name] = envoy
        await self._has_everything(envoy, {})
        return envoy

    async def _secrets(self, namespace: str, service_account: str) -> Path:
        """Serve the certificate of a workload on a Unix socket, as its agent would."""
        path = self.socket_dir / f"{len(self.envoys)}.sock"
        trust_domain = self.plane.context.model.trust_domain
        identity = f"spiffe://{trust_domain}/ns/{namespace}/sa/{service_account}"
        authority = self.plane.authority
        secrets = WorkloadSecrets(authority, identity, authority.root_pem)
        server = XdsServer({type_urls.SECRET: secrets}, admit=_admit_all)
        server.set_ready()
        await self._stack.enter_async_context(serving(server, [UnixListener(path=path)]))
        return path

    # What they talk to.

    async def echo(
        self,
        version: str = "v1",
        *,
        address: str | None = None,
        port: int = 8080,
        tls: ssl.SSLContext | None = None,
    ) -> Echo:
        """Serve an HTTP application on an address of its own."""
        server = Echo(version, address or self.network.address(), port, _context=tls)
        _note_names(tls, server.server_names)
        await server.accept()
        self._stack.push_async_callback(server.refuse)
        return server

    async def tcp_echo(
        self,
        version: str = "v1",
        *,
        banner: bytes = b"",
        address: str | None = None,
        port: int = 9000,
        tls: ssl.SSLContext | None = None,
    ) -> TcpEcho:
        """Serve lines over TCP on an address of its own."""
        server = TcpEcho(version, address or self.network.address(), port, banner, _context=tls)
        _note_names(tls, server.server_names)
        await server.accept()
        self._stack.push_async_callback(server.refuse)
        return server

    async def version_echo(self, *, address: str | None = None, port: int = 8080) -> VersionEcho:
        """Serve either version of HTTP on an address of its own."""
        server = VersionEcho(address or self.network.address(), port)
        await server.accept()
        self._stack.push_async_callback(server.refuse)
        return server

    def tls(self, *names: str) -> ssl.SSLContext:
        """Make a server's TLS context with a certificate of `authority` for these names."""
        issued = self.authority.issue(*names)
        file = self.tmp_path / f"server-{id(issued)}.pem"
        file.write_bytes(issued.key_pem + issued.chain_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def port(self) -> int:
        """Return a port that no other process of this machine uses, for a gateway's server."""
        return find_free_port()

    def port_for(self, number: int) -> int:
        """Return a port of this scene's own in place of a well-known one, always the same."""
        if number not in self._ports:
            self._ports[number] = self.port()
        return self._ports[number]

    # Settings that many tests share.

    async def reviews(self, *, client_labels: Mapping[str, str] | None = None) -> Reviews:
        """Start client C in namespace a, and the service s.b with a v1 and a v2 of plain HTTP."""
        v1, v2 = await asyncio.gather(self.echo("v1"), self.echo("v2"))
        service = SERVICE.format(port=v1.port, v1=v1.address, v2=v2.address)
        await self.apply(service_s=service)
        client = await self.sidecar("c", namespace="a", service_account="c", labels=client_labels)
        return Reviews(client, v1, v2)


async def _admit_all(node: Node, peer: Peer) -> Admission[None]:  # noqa: ARG001
    return Admission(context=None)


def _note_names(context: ssl.SSLContext | None, names: list[str | None]) -> None:
    if context is None:
        return

    def note(_connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        names.append(name)

    note_all: Callable[..., None] = note
    context.sni_callback = note_all


@asynccontextmanager
async def opened_scene(
    *, tmp_path: Path, socket_dir: Path, envoy_binary: Path, strict_namespaces: bool = False
) -> AsyncIterator[Scene]:
    """Run a control plane over an empty mesh, and all that is started beside it, for a block.

    strict_namespaces: each namespace governs its own hosts alone.
    """
    directory = tmp_path / "scene"
    directory.mkdir()
    (directory / "mesh_config.yaml").write_text(MESH_CONFIG)
    async with AsyncExitStack() as stack:
        network = stack.enter_context(claimed_network())
        plane = await stack.enter_async_context(
            scene_plane(directory, tmp_path / "scene-ca", strict_namespaces=strict_namespaces)
        )
        scene = Scene(plane, network, tmp_path, socket_dir, envoy_binary, _stack=stack)
        yield scene
