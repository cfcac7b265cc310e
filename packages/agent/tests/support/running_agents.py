"""A whole agent in this process, with a real Envoy, under a control plane that the test plays."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import grpc.aio
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2, json_format
from google.protobuf.message import Message
from msgspec import structs

from certclient import OutputFilesConfig, SpiffeId, write_files
from certclient.testing import FakeAuthority, issued
from mesh_agent import AgentConfig, Flags, load_config, run
from mesh_protos import type_urls
from mesh_testkit import PATIENCE_S, until
from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane

IDENTITY = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/default")
LISTENER_PORT = 18080
SOTW = "StreamAggregatedResources"
"""The control plane's only dialect; Envoy speaks the other, so that all tests are translated."""
NAMED = (router_pb2, http_connection_manager_pb2, tls_pb2)
"""The messages that resources hold packed; JSON that names them is read once they are loaded."""


def own_address() -> str:
    """An address of this run's own: several may go on at once on one machine."""
    return f"127.64.{os.getpid() % 250}.1"


def cluster(name: str, **fields: object) -> cluster_pb2.Cluster:
    return json_format.ParseDict(
        {"name": name, "type": "STATIC", "connect_timeout": "1s", **fields}, cluster_pb2.Cluster()
    )


def listener(
    name: str, *, port: int = LISTENER_PORT, filter_: Mapping[str, object] | None = None
) -> listener_pb2.Listener:
    """A listener for HTTP that answers by itself, unless `filter_` says otherwise."""
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network."
        "http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "http_filters": [
            {
                "name": "router",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
                },
            }
        ],
        **(
            filter_
            or {
                "route_config": {
                    "virtual_hosts": [
                        {
                            "name": "all",
                            "domains": ["*"],
                            "routes": [
                                {"match": {"prefix": "/"}, "direct_response": {"status": 200}}
                            ],
                        }
                    ]
                }
            }
        ),
    }
    return json_format.ParseDict(
        {
            "name": name,
            "address": {"socket_address": {"address": own_address(), "port_value": port}},
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        },
        listener_pb2.Listener(),
    )


def rds(name: str) -> dict[str, object]:
    """The fields of a listener whose routes come over ADS."""
    source = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    return {"rds": {"route_config_name": name, "config_source": source}}


class Plane:
    """Answers each type with the resources that the test has put there."""

    def __init__(self, plane: ControlPlane) -> None:
        self.address = plane.address
        self._plane = plane
        self._resources: dict[str, tuple[int, tuple[Message, ...]]] = {}
        self._streams: list[tuple[ControlPlaneStream, set[str]]] = []
        self.requests: list[discovery_pb2.DiscoveryRequest] = []

    async def give(self, type_url: str, *resources: Message) -> None:
        """Send these now and to whom asks later."""
        version = self._resources.get(type_url, (0, ()))[0] + 1
        self._resources[type_url] = version, resources
        for stream, asked in self._streams:
            if type_url in asked:
                await self._send(stream, type_url)

    async def give_all(self, *listeners: Message) -> None:
        """Clusters, none, and listeners: enough for Envoy to begin its work."""
        await self.give(type_urls.CLUSTER)
        await self.give(type_urls.LISTENER, *listeners)

    def end_streams(self) -> None:
        """End every stream, as a control plane that is restarted does."""
        for stream, _ in self._streams:
            stream.end()

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                stream = await self._plane.accept()
                group.create_task(self._serve(stream), name="test control plane")

    async def _serve(self, stream: ControlPlaneStream) -> None:
        asked: set[str] = set()
        self._streams.append((stream, asked))
        try:
            while (raw := await _received(stream)) is not None:
                request = discovery_pb2.DiscoveryRequest.FromString(raw)
                self.requests.append(request)
                if request.type_url not in asked:
                    asked.add(request.type_url)
                    if request.type_url in self._resources:
                        await self._send(stream, request.type_url)
        finally:
            self._streams.remove((stream, asked))

    async def _send(self, stream: ControlPlaneStream, type_url: str) -> None:
        version, resources = self._resources[type_url]
        response = discovery_pb2.DiscoveryResponse(
            type_url=type_url, version_info=str(version), nonce=f"{type_url}-{version}"
        )
        for resource in resources:
            packed = any_pb2.Any(type_url=type_url, value=resource.SerializeToString())
            response.resources.append(packed)
        await stream.send(response.SerializeToString())


async def _received(stream: ControlPlaneStream) -> bytes | None:
    try:
        return await stream.receive()
    except grpc.aio.UsageError:  # the test has ended the stream
        return None


@dataclass(slots=True, kw_only=True)
class RunningAgent:
    """An agent that was started in this process."""

    config: AgentConfig
    plane: Plane
    authority: FakeAuthority
    task: "asyncio.Task[int]"

    async def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Ask the status port; while it does not listen the status is 0."""
        return await ask(own_address(), self.config.status.port, path, method)

    async def ask_envoy(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Ask Envoy's admin interface."""
        return await ask(own_address(), 15000, path, method)

    async def until_ready_says(self, status: int, text: str) -> None:
        """Wait for that answer to the platform's probe."""
        said = (0, "")

        async def is_answered() -> bool:
            nonlocal said
            said = await self.ask("/healthz/ready")
            return said[0] == status and text in said[1]

        await until(is_answered, what=f"{status} {text!r} at /healthz/ready", seen=lambda: said)

    async def status(self) -> Mapping[str, Any]:
        """Returns `/debug/status`, once the agent has started."""
        answer = (0, "")

        async def started() -> bool:
            nonlocal answer
            answer = await self.ask("/debug/status")
            return answer[0] == HTTPStatus.OK

        await until(started, what="the agent's start", seen=lambda: answer)
        document: Mapping[str, Any] = json.loads(answer[1])
        return document

    async def renew(self, identity: SpiffeId = IDENTITY) -> None:
        """Replace the mounted certificate by a new one."""
        await mount(self.config.envoy.directory.parents[2], self.authority, identity)

    async def end(self) -> int:
        """Ask the agent to stop, and wait until it has."""
        await self.ask("/quitquitquit", "POST")
        async with asyncio.timeout(PATIENCE_S):
            return await self.task


async def ask(host: str, port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Returns status and body; status 0 where there is no listener."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                writer.write(f"{head}content-length: 0\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except OSError:
        return 0, ""
    top, _, body = answer.decode().partition("\r\n\r\n")
    return (int(top.split()[1]), body) if top else (0, "")


async def mount(directory: Path, authority: FakeAuthority, identity: SpiffeId = IDENTITY) -> None:
    """Mount a new certificate of the workload below the agent's directory."""
    certificate = await issued(authority, identity)
    write_files(OutputFilesConfig(directory=directory / "etc/certs", mode=0o600), certificate)


def environment_of(plane: ControlPlane, proxy: Mapping[str, object]) -> dict[str, str]:
    """The environment of an agent under this control plane."""
    proxy_config = {
        "discoveryAddress": plane.address,
        "controlPlaneAuthPolicy": "NONE",
        "concurrency": 1,
        **proxy,
    }
    return {
        "POD_NAME": "web-1",
        "POD_NAMESPACE": "shop",
        "INSTANCE_IP": own_address(),
        "MESH_AGENT_BIND_ADDRESS": own_address(),
        "CLOUD_PLATFORM": "none",
        "PROXY_CONFIG": json.dumps(proxy_config),
        "PATH": os.environ["PATH"],
    }


@dataclass(slots=True, kw_only=True)
class AgentProcess:
    """The real command in a directory of its own."""

    process: asyncio.subprocess.Process
    directory: Path
    log: Path
    plane: Plane

    async def wait(self) -> int:
        """Wait for the end and return the exit status."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    def said(self) -> str:
        """All that the agent, and an application that it started, have written."""
        return self.log.read_text()

    def left_behind(self) -> list[str]:
        """Sockets and bootstraps that are still there."""
        return [
            str(path.relative_to(self.directory))
            for path in self.directory.rglob("*")
            if path.is_socket() or path.name.startswith("envoy-rev")
        ]


@asynccontextmanager
async def agent_process(
    directory: Path,
    envoy: Path,
    *arguments: str,
    proxy: Mapping[str, object] | None = None,
    ready: bool = True,
    stdin: bytes = b"",
    **environ: str,
) -> AsyncIterator[AgentProcess]:
    """Run `mesh-agent proxy sidecar ARGUMENTS`; killed if it still runs at the end.

    ready: whether the control plane gives Envoy what makes it ready.
    """
    await mount(directory, FakeAuthority())
    log = directory / "agent.log"
    async with control_plane(methods=[SOTW]) as plane, asyncio.TaskGroup() as group:
        played = Plane(plane)
        playing = group.create_task(played.serve(), name="test control plane")
        if ready:
            await played.give_all(listener("web"))
        environment = {**environment_of(plane, proxy or {}), "ENVOY_PATH": str(envoy), **environ}
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mesh_agent", "proxy", "sidecar", *arguments),
                cwd=directory,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
            )
        if process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        try:
            yield AgentProcess(process=process, directory=directory, log=log, plane=played)
        except BaseException as error:
            error.add_note(log.read_text()[-4000:])
            raise
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            playing.cancel()


@asynccontextmanager
async def running_agent(
    directory: Path,
    envoy: Path,
    *,
    flags: Mapping[str, Any] | None = None,
    proxy: Mapping[str, object] | None = None,
    ready_poll_s: float = 0.05,
    expect: int | type[BaseException] = 0,
    conditions: Mapping[str, Any] | None = None,
    **environ: str,
) -> AsyncIterator[RunningAgent]:
    """Run an agent with a mounted certificate; when the block ends it is stopped.

    expect: the exit status, or the error, that it ends with.
    """
    authority = FakeAuthority()
    await mount(directory, authority)
    async with control_plane(methods=[SOTW]) as plane, asyncio.TaskGroup() as group:
        played = Plane(plane)
        playing = group.create_task(played.serve(), name="test control plane")
        base = environment_of(plane, {"terminationDrainDuration": "0s", **(proxy or {})})
        config = load_config(
            Flags(**{"envoy_path": str(envoy), **(flags or {})}),
            environ={**base, **environ},
            directory=directory,
            version="1",
        )
        config = structs.replace(config, ready_poll_s=ready_poll_s)
        work: Coroutine[object, object, int] = run(config, conditions=conditions)
        task = asyncio.create_task(work, name="agent")
        agent = RunningAgent(config=config, plane=played, authority=authority, task=task)
        try:
            yield agent
        finally:
            if not task.done():
                await agent.ask("/quitquitquit", "POST")
                await asyncio.wait({task}, timeout=PATIENCE_S)
            if not task.done():
                task.cancel()
                with suppress(BaseException):
                    await task
            playing.cancel()
        if isinstance(expect, int):
            assert task.result() == expect
        else:
            assert isinstance(task.exception(), expect), task
