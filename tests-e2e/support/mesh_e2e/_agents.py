"""One agent and its Envoy, under a control plane and an authority that the test holds in its hands.

The real `mesh-agent proxy` in a directory of its own, as a platform would start it. Its two
servers are the packages' own fakes, over TLS: they note all they are told.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import grpc

from certclient.testing import FakeAuthority, FakeIstioCa, fake_istio_ca
from mesh_ca import load_or_create_authority
from mesh_e2e._load import Target, send
from mesh_e2e._machine import alive, children_of, last_words
from mesh_sds.testing import SecretSubscriber, subscriber
from mesh_testkit import PATIENCE_S, until
from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane

SERVER_NAME = "istiod.istio-system.svc"
TOKEN = Path("var/run/secrets/tokens/istio-token")
ROOT = Path("var/run/secrets/istio/root-cert.pem")
SDS_SOCKET = Path("var/run/secrets/workload-spiffe-uds/socket")


@dataclass(slots=True, kw_only=True)
class Servers:
    """A control plane and an authority, and the root that both are checked against."""

    control_plane: ControlPlane
    ca: FakeIstioCa
    authority: FakeAuthority
    root_pem: bytes

    async def wait_stream(self) -> ControlPlaneStream:
        """Wait for an agent's next stream of configuration."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.control_plane.accept()


@asynccontextmanager
async def servers(
    directory: Path,
    *,
    authority: FakeAuthority | None = None,
    client_roots: bytes | None = None,
    ca_client_roots: bytes | None = None,
    ca_address: str = "127.0.0.1:0",
) -> AsyncIterator[Servers]:
    """Run both. client_roots: of those that a client has to show a certificate of."""
    own = load_or_create_authority(directory / "servers", trust_domain="cluster.local")
    pair = own.issue_server_certificate([SERVER_NAME])

    def tls(roots: bytes | None) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials([pair], roots, require_client_auth=roots is not None)

    signing = authority or FakeAuthority()
    async with (
        control_plane(credentials=tls(client_roots)) as plane,
        fake_istio_ca(signing, address=ca_address, credentials=tls(ca_client_roots)) as ca,
    ):
        yield Servers(control_plane=plane, ca=ca, authority=signing, root_pem=own.root_pem)


@dataclass(slots=True, kw_only=True)
class Agent:
    """A running `mesh-agent proxy`."""

    process: asyncio.subprocess.Process
    directory: Path
    address: str
    log: Path = field(repr=False)

    @property
    def sds_socket(self) -> Path:
        return self.directory / SDS_SOCKET

    @asynccontextmanager
    async def asked_for(self, *names: str, delta: bool = False) -> AsyncIterator[SecretSubscriber]:
        """Ask for secrets as Envoy does, once somebody listens."""
        await until(self._listens, what="the secret socket to be listened on")
        async with subscriber(self.sds_socket, delta=delta) as stream:
            await stream.ask(*names)
            yield stream

    async def _listens(self) -> bool:
        # The file is there a moment before a connection is taken.
        try:
            _, writer = await asyncio.open_unix_connection(self.sds_socket)
        except OSError:
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    async def status(self) -> Mapping[str, Any]:
        """Returns the agent's status; waits until all of its parts have started."""
        target = Target(host=self.address, port=15020, url="/debug/status")
        code, body = 0, b""

        async def started() -> bool:
            nonlocal code, body
            code, body = await send(target)
            return code != HTTPStatus.SERVICE_UNAVAILABLE

        await until(started, what="the agent's parts to start")
        assert code == HTTPStatus.OK, body
        document: Mapping[str, Any] = json.loads(body)
        return document


def environment_of(
    servers: Servers, address: str, *, ca_address: str | None = None, **changes: str
) -> dict[str, str]:
    """Return the environment of an agent of the workload `web` under these servers."""
    return agent_environment(
        address,
        **{
            "POD_NAME": "web-1",
            "POD_NAMESPACE": "shop",
            "SERVICE_ACCOUNT": "web",
            "PROXY_CONFIG": json.dumps({"discoveryAddress": servers.control_plane.address}),
            "CA_ADDR": ca_address or servers.ca.address,
            "ISTIOD_SAN": SERVER_NAME,
            **changes,
        },
    )


def agent_environment(address: str, **changes: str) -> dict[str, str]:
    """Return the environment that a platform gives an agent at this address."""
    here = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {
        **here,
        "POD_NAME": "pod",
        "POD_NAMESPACE": "default",
        "SERVICE_ACCOUNT": "pod",
        "INSTANCE_IP": address,
        "MESH_AGENT_BIND_ADDRESS": address,
        "PROXY_CONFIG": json.dumps({"discoveryAddress": f"{address}:15012"}),
        **changes,
    }


def own_address(number: int) -> str:
    """Return an address that this run has for itself: several may go on at once on one machine."""
    return f"127.61.{os.getpid() % 250}.{number}"


@asynccontextmanager
async def running_agent(
    directory: Path,
    environment: Mapping[str, str],
    *arguments: str,
    wrapper: Sequence[str] = (),
) -> AsyncIterator[Agent]:
    """Run an agent in `directory`; it must end with 0 when it is told to stop.

    wrapper: words before the command, for a program that becomes the agent.
    """
    log = directory / "agent.log"
    async with AsyncExitStack() as stack:
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *wrapper,
                *(sys.executable, "-m", "mesh_agent", "proxy", "sidecar", *arguments),
                env=environment,
                cwd=directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        stack.push_async_callback(_end, process)
        try:
            yield Agent(
                process=process,
                directory=directory,
                address=environment["INSTANCE_IP"],
                log=log,
            )
            assert process.returncode is None, "the agent has ended"
            envoys = children_of(process.pid)
            process.terminate()
            async with asyncio.timeout(PATIENCE_S):
                assert await process.wait() == 0
        except BaseException as error:
            error.add_note(last_words([log]))
            raise
        assert not any(map(alive, envoys)), "an Envoy outlives its agent"


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def put(directory: Path, path: Path, content: bytes | str) -> None:
    """Write a file below the agent's directory, as the platform mounts it."""
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    (directory / path).write_bytes(data)
