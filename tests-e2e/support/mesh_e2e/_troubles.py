"""A workload in trouble: one agent beside a real control plane, with one thing wrong.

Each trouble is a context manager that yields the workload once its agent shows the trouble, if the
agent runs at all. `TROUBLES` names them, with the cause that the doctor has to find.
"""

import asyncio
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

from envoy_supervisor import find_envoy
from mesh_ca import TokenIssuer
from mesh_e2e._agents import ROOT, SERVER_NAME, TOKEN, Agent, agent_environment, put, running_agent
from mesh_e2e._certificates import ForeignAuthority
from mesh_e2e._load import Unanswered
from mesh_testkit import PATIENCE_S, until

NAMESPACE, ACCOUNT = "shop", "web"
_ISSUER = "https://tokens.mesh.example"
_ENTRY = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: orders, namespace: shop}
spec:
  hosts: [orders.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8080, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1}]
"""
_FAKETIME = "faketime/libfaketimeMT.so.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A running `mesh-discovery`, and the issuer of its workloads' tokens."""

    address: str
    directory: Path
    tokens: TokenIssuer = field(repr=False)
    process: "Popen[bytes]" = field(repr=False)

    @property
    def root_pem(self) -> bytes:
        return (self.directory / "ca" / "root-cert.pem").read_bytes()


@contextmanager
def plane(
    directory: Path, address: str, *, environ: Mapping[str, str] | None = None
) -> Iterator[Plane]:
    """Run a control plane on the standard ports of an address; environ: further variables."""
    config = directory / "config"
    config.mkdir(parents=True)
    (config / "orders.yaml").write_text(_ENTRY)
    ahead_s = 86_400 if environ else 0
    tokens = TokenIssuer(directory / "tokens", _ISSUER, clock=lambda: time.time() + ahead_s)
    tokens.write_jwks(directory / "jwks.json")
    words = [
        *(sys.executable, "-m", "mesh_discovery", "discovery"),
        *("--config-dir", str(config), "--ca-dir", str(directory / "ca")),
        *("--jwks-file", str(directory / "jwks.json"), "--jwt-issuer", _ISSUER),
        *("--http-addr", f"{address}:8080", "--grpc-addr", ""),
        *("--secure-grpc-addr", f"{address}:15012", "--monitoring-addr", f"{address}:15014"),
    ]
    with (directory / "log").open("wb") as log:
        process = Popen(
            words, env={**os.environ, **(environ or {})}, stdin=DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait_listening(process, address, directory / "log")
        yield Plane(address=address, directory=directory, tokens=tokens, process=process)
    finally:
        process.kill()
        process.wait()


def _wait_listening(process: "Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with socket.create_connection((address, 15012), timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE_S:g} s for the control plane: {log.read_text()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload's directory and environment; runs the commands as its operator would.

    wrapper: words before each command, for a namespace of its own.
    """

    directory: Path
    environment: Mapping[str, str]
    wrapper: tuple[str, ...] = ()

    async def run(self, *words: str) -> tuple[int, str, str]:
        """Run `mesh-agent` with these words to its end: status, output, errors."""
        process = await asyncio.create_subprocess_exec(
            *self.wrapper,
            *(sys.executable, "-m", "mesh_agent_cli", *words),
            env=dict(self.environment),
            cwd=self.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode or 0, output.decode(), errors.decode()


def workload(plane: Plane, directory: Path, address: str, **changes: str) -> Workload:
    """Return a workload with all that it needs from its platform."""
    directory.mkdir(parents=True, exist_ok=True)
    put(directory, ROOT, plane.root_pem)
    put(directory, TOKEN, plane.tokens.issue(NAMESPACE, ACCOUNT))
    (directory / "bin").mkdir()
    (directory / "bin/envoy").symlink_to(find_envoy(environ=os.environ))  # short, for screens
    environment = agent_environment(
        address,
        **{
            "ENVOY_PATH": "bin/envoy",
            "POD_NAME": "web-1",
            "POD_NAMESPACE": NAMESPACE,
            "SERVICE_ACCOUNT": ACCOUNT,
            "PROXY_CONFIG": json.dumps({"discoveryAddress": f"{plane.address}:15012"}),
            "ISTIOD_SAN": SERVER_NAME,
            "ISTIO_META_DNS_CAPTURE": "true",
            "DNS_PROXY_ADDR": f"{address}:15053",
            "ISTIO_META_INTERCEPTION_MODE": "NONE",
            "ISTIO_META_OUTBOUND_BIND_ADDRESS": _outbound(address),
            **changes,
        },
    )
    return Workload(directory=directory, environment=environment)


def _outbound(address: str) -> str:
    head, _, last = address.rpartition(".")
    return f"{head}.{int(last) + 100}"


async def _status(agent: Agent, wanted: Callable[[Mapping[str, Any]], object], what: str) -> None:
    seen: list[Mapping[str, Any]] = []

    async def is_so() -> bool:
        assert agent.process.returncode is None, "the agent has ended"
        try:
            seen.append(await agent.status())
        except (OSError, Unanswered):
            return False
        return bool(wanted(seen[-1]))

    await until(is_so, what=what, seen=lambda: seen[-1:])


def _is_well(status: Mapping[str, Any]) -> bool:
    return bool(status["ready"] and status["xds"]["connected"] and status["names"].get("table"))


def _has_no_certificate(status: Mapping[str, Any]) -> object:
    return status["certificate"].get("last_error") and status["xds"]["last_error"]


@asynccontextmanager
async def well(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """Nothing is wrong."""
    own = workload(plane, directory, address)
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _is_well, "an agent that is well")
        yield own


@asynccontextmanager
async def expired_token(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The platform did not renew the token."""
    own = workload(plane, directory, address)
    of_before = TokenIssuer(plane.directory / "tokens", _ISSUER, clock=lambda: time.time() - 7200)
    put(directory, TOKEN, of_before.issue(NAMESPACE, ACCOUNT))
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _has_no_certificate, "a refused token")
        yield own


@asynccontextmanager
async def missing_token(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """No token is mounted: an agent does not start."""
    own = workload(plane, directory, address)
    (directory / TOKEN).unlink()
    yield own


@asynccontextmanager
async def foreign_token(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The token is of another issuer, another cluster's perhaps."""
    own = workload(plane, directory, address)
    other = TokenIssuer(directory / "other-issuer", "https://tokens.other.example")
    put(directory, TOKEN, other.issue(NAMESPACE, ACCOUNT))
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _has_no_certificate, "a refused token")
        yield own


@asynccontextmanager
async def token_of_another(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The token is of another namespace's service account."""
    own = workload(plane, directory, address)
    put(directory, TOKEN, plane.tokens.issue("bank", "vault"))
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _has_no_certificate, "a certificate of another workload, refused")
        yield own


@asynccontextmanager
async def wrong_root(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The root file is another mesh's."""
    own = workload(plane, directory, address)
    put(directory, ROOT, ForeignAuthority(directory / "foreign", "cluster.local").root_pem)
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _has_no_certificate, "a control plane that is not verified")
        yield own


@asynccontextmanager
async def wrong_name(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The control plane is expected to have another name."""
    own = workload(plane, directory, address, ISTIOD_SAN="istiod.mesh.example")
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _has_no_certificate, "a control plane of another name")
        yield own


@asynccontextmanager
async def plane_down(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The control plane was killed after the agent had become ready."""
    with own_plane(directory / "plane", plane.address) as mortal:
        own = workload(mortal, directory, address)
        async with running_agent(directory, own.environment) as agent:
            await _status(agent, _is_well, "an agent that is well")
            mortal.process.kill()
            mortal.process.wait()
            await _status(
                agent,
                lambda status: not status["xds"]["connected"] and status["xds"]["last_error"],
                "a control plane that is gone",
            )
            yield own


@asynccontextmanager
async def stale_start(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The agent was killed and started again while the control plane is down."""
    with own_plane(directory / "plane", plane.address) as mortal:
        own = workload(mortal, directory, address)
        async with running_agent(directory, own.environment) as agent:
            await _status(agent, _is_saved, "an agent whose configuration is saved")
            mortal.process.kill()
            mortal.process.wait()
        async with running_agent(directory, own.environment) as agent:
            await _status(
                agent,
                lambda status: status["ready"] and status["xds"]["stale_since"],
                "an agent that is ready with saved configuration",
            )
            yield own


def _is_saved(status: Mapping[str, Any]) -> bool:
    saved = status["xds"]["saved"]
    return _is_well(status) and len(saved["types"]) >= 2 and not saved["waiting_bytes"]


@asynccontextmanager
async def another_plane(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """The first of two control planes is down, and the agent works with the second."""
    head, _, last = plane.address.rpartition(".")
    dead = f"{head}.{int(last) + 1}:15012"
    own = workload(
        plane,
        directory,
        address,
        PROXY_CONFIG=json.dumps({"discoveryAddress": dead}),
        CA_ADDR=f"{plane.address}:15012",
        MESH_AGENT_FURTHER_CONTROL_PLANES=f"{plane.address}:15012",
    )
    async with running_agent(directory, own.environment) as agent:
        await _status(agent, _is_well, "an agent that is well")
        yield own


@asynccontextmanager
async def nack(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """Envoy refuses a listener: another program has the address that it is to listen at."""
    own = workload(plane, directory, address)
    with socket.create_server((_outbound(address), 8080)):
        async with running_agent(directory, own.environment) as agent:
            await _status(
                agent,
                lambda status: any(each["nack"] for each in status["xds"]["types"].values()),
                "a refused listener",
            )
            yield own


@asynccontextmanager
async def clock_off(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """This machine's clock is a day behind the control plane's."""
    library = next(Path("/usr/lib").glob(f"*/{_FAKETIME}"))
    ahead = {
        "LD_PRELOAD": str(library),
        "FAKETIME": "+1d",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with own_plane(directory / "plane", plane.address, environ=ahead) as other:
        own = workload(other, directory, address)
        async with running_agent(directory, own.environment) as agent:
            await _status(agent, _has_no_certificate, "a control plane from tomorrow")
            yield own


@asynccontextmanager
async def port_taken(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """Another program has the status port: an agent does not start."""
    own = workload(plane, directory, address)
    served = directory / "served"
    served.mkdir()
    (served / "index.html").write_text("<html>hello</html>")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "http.server", "15020", "--bind", address),
        cwd=served,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:

        async def listens() -> bool:
            try:
                _, writer = await asyncio.open_connection(address, 15020)
            except OSError:
                return False
            writer.close()
            return True

        await until(listens, what="the other program")
        yield own
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def dns_loop(plane: Plane, directory: Path, address: str) -> AsyncIterator[Workload]:
    """resolv.conf names the agent, and no other resolver."""
    own = workload(plane, directory, address, DNS_PROXY_ADDR=f"{address}:53")
    file = directory / "resolv.conf"
    file.write_text(f"nameserver {address}\nsearch shop.svc.cluster.local\n")
    script = f'mount --bind {file} /etc/resolv.conf && exec "$@"'
    wrapper = ("unshare", "-m", "sh", "-c", script, "sh")
    async with running_agent(directory, own.environment, wrapper=wrapper) as agent:
        await _status(agent, _is_well, "an agent that answers names")
        yield replace(own, wrapper=wrapper)


@contextmanager
def own_plane(
    directory: Path, beside: str, *, environ: Mapping[str, str] | None = None
) -> Iterator[Plane]:
    """Run a further control plane, at the next address."""
    head, _, last = beside.rpartition(".")
    with plane(directory, f"{head}.{int(last) + 1}", environ=environ) as running:
        yield running


Trouble = Callable[[Plane, Path, str], AbstractAsyncContextManager[Workload]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trouble, the cause that the doctor names first, and words that its sentence has.

    exits: the exit statuses of `status`, `wait` and `certs`, as docs/commands.md has them.
    obstacle: why it can't be had on this machine; empty if it can. slow: takes seven seconds.
    """

    name: str
    title: str
    trouble: Trouble
    cause: str | None
    said: tuple[str, ...] = ()
    exits: tuple[int, int, int] = (1, 1, 1)
    obstacle: str = ""


def _obstacle_to_faketime() -> str:
    found = next(Path("/usr/lib").glob(f"*/{_FAKETIME}"), None)
    return "" if found else "there is no libfaketime"


def _obstacle_to_namespaces() -> str:
    if os.geteuid() != 0:
        return "port 53, and a resolv.conf of its own, need root"
    return "" if shutil.which("unshare") else "there is no unshare"


TROUBLES = (
    Case(name="well", title="All is well", trouble=well, cause=None, exits=(0, 0, 0)),
    Case(
        name="expired-token",
        title="The token has expired",
        trouble=expired_token,
        cause="token-expired",
        said=("expired 60 min ago",),
    ),
    Case(
        name="missing-token",
        title="There is no token",
        trouble=missing_token,
        cause="token-missing",
        said=("istio-token does not exist",),
    ),
    Case(
        name="foreign-token",
        title="The token is from another issuer",
        trouble=foreign_token,
        cause="token-refused",
        said=("UNAUTHENTICATED", "https://tokens.other.example"),
    ),
    Case(
        name="token-of-another",
        title="The token is another workload's",
        trouble=token_of_another,
        cause="token-foreign",
        said=("system:serviceaccount:bank:vault", "namespace shop"),
    ),
    Case(
        name="wrong-root",
        title="The root file is another mesh's",
        trouble=wrong_root,
        cause="wrong-root",
        said=("is issued by", "trusted is", "key id"),
    ),
    Case(
        name="wrong-name",
        title="The control plane has another name",
        trouble=wrong_name,
        cause="wrong-name",
        said=("istiod.mesh.example", SERVER_NAME),
    ),
    Case(
        name="control-plane-down",
        exits=(1, 0, 0),
        title="The control plane is down",
        trouble=plane_down,
        cause="control-plane-refuses-connections",
        said=("connection refused",),
    ),
    Case(
        name="stale",
        exits=(1, 0, 0),
        title="The agent starts while the control plane is down",
        trouble=stale_start,
        cause="control-plane-refuses-connections",
        said=("connection refused",),
    ),
    Case(
        name="another-control-plane",
        exits=(0, 0, 0),
        title="The first of two control planes is down",
        trouble=another_plane,
        cause="control-plane-refuses-connections",
        said=("connection refused",),
    ),
    Case(
        name="nack",
        exits=(1, 1, 0),
        title="Envoy refuses the configuration (NACK)",
        trouble=nack,
        cause="nack",
        said=("listeners", "Address already in use"),
    ),
    Case(
        name="clock-off",
        title="The clock is a day off",
        trouble=clock_off,
        cause="clock-skew",
        said=("clock is 2", " behind that of the control plane"),  # 24 h, or 23 h 59 min
        obstacle=_obstacle_to_faketime(),
    ),
    Case(
        name="port-taken",
        title="Another program has the status port",
        trouble=port_taken,
        cause="port-taken",
        said=("15020", "http.server"),
    ),
    Case(
        name="dns-loop",
        exits=(0, 0, 0),
        title="resolv.conf leads back to the agent",
        trouble=dns_loop,
        cause="dns-loop",
        said=("/etc/resolv.conf names no resolver but the agent itself",),
        obstacle=_obstacle_to_namespaces(),
    ),
)


async def screens_of(case: Case, plane: Plane, directory: Path, address: str) -> dict[str, str]:
    """Return what the commands print in a trouble, by their words."""
    shown = {}
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(case.trouble(plane, directory, address))
        for words in (("status",), ("certs",), ("doctor",)):
            _, output, errors = await own.run(*words)
            shown[" ".join(words)] = output + errors
    return shown
