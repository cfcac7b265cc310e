"""The mesh that everything happens to, and what is noted of it.

A caller, a service of two replicas, a TCP service of one, a gateway: each has an agent and an
Envoy. All of it runs on loopback addresses of this machine.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from mesh_chaos._authority import AuthorityWay
from mesh_chaos._books import Absence, Death, Lane
from mesh_chaos._parts import Part, kill_all
from mesh_chaos._resolvers import Resolver
from mesh_chaos._traffic import Questions, Requests
from mesh_chaos._waiting import NotSoon, soon
from mesh_e2e import Target, Unanswered, alive, send
from mesh_local import RunningMesh, RunningWorkload
from mesh_testkit import SmallDisk

LIFETIME_S = 60
RENEWAL_S = 9.0
"""`LEFT_AT_RENEWAL` of a certificate's life is left then."""
LEFT_AT_RENEWAL = "0.85"
SERVICES = {"caller": "caller", "backend-1": "backend", "backend-2": "backend"} | {
    "store": "store",
    "edge": "edge",
}
EDGE_HOST = "shop.example"
OUTSIDE = "outside.example"
OUTSIDE_ADDRESS = "192.0.2.77"
WORKLOAD_DISK_KIB = 24 << 10
CA_DISK_KIB = 2 << 10

_MESH = """\
    mesh: {{certificateLifetime: {lifetime}s, drain: 1s}}
    configDir: rules
    workloads:
      - {{name: caller}}
      - {{name: backend, replicas: 2, ports: [{{port: 8080}}], command: ECHO}}
      - {{name: store, ports: [{{port: 9000, protocol: tcp}}], command: ECHO}}
      - {{name: edge, gateway: {{ports: [{port}]}}}}
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: edge, namespace: default}}
spec:
  selector: {{istio: ingressgateway}}
  servers: [{{port: {{number: {port}, name: http, protocol: HTTP}}, hosts: [{host}]}}]
"""
EDITION = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: backend, namespace: default}}
spec:
  hosts: [backend.default.svc.cluster.local, {host}]
  gateways: [mesh, edge]
  http:
  - headers: {{request: {{set: {{x-edition: "{edition}"}}}}}}
    route: [{{destination: {{host: backend.default.svc.cluster.local}}}}]
"""


def mesh_text(port: int) -> str:
    """Return the mesh file."""
    return dedent(_MESH).format(lifetime=LIFETIME_S, port=port)


@dataclass(slots=True, kw_only=True)
class Binaries:
    """Two files with the same Envoy, and the link that leads agents to one of them."""

    link: Path
    files: tuple[Path, Path]

    def exchange(self) -> None:
        """Have the link lead to the other."""
        beside = self.link.with_name(".next-envoy")
        beside.symlink_to(self.files[self.link.readlink() == self.files[0]])
        beside.replace(self.link)


@dataclass(slots=True, kw_only=True)
class TestedMesh:
    """The running mesh, and what has happened to it.

    edition: of the configuration that must be in use once it is calm. problems: what went wrong
    that no request shows, with the monotonic time at which it was seen.
    """

    mesh: RunningMesh
    directory: Path
    edge_port: int
    parts: Mapping[str, Part]
    resolvers: Mapping[str, Resolver]
    disks: Mapping[str, SmallDisk]
    authority: AuthorityWay
    environment: Mapping[str, str]
    binaries: Binaries
    edition: int = 0
    deaths: list[Death] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    away_since: dict[str, float] = field(default_factory=dict)
    problems: list[tuple[float, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def rules(self) -> Path:
        return self.directory / "rules"

    @property
    def control_plane(self) -> Part:
        return self.parts["control plane"]

    def agent(self, workload: str) -> Part:
        return self.parts[workload]

    def clock_file(self, workload: str) -> Path:
        """Where it is written by how much a workload's clock is off."""
        return self.directory / f"{workload}.clock"

    def exchange_binary(self) -> None:
        """Have another Envoy where agents find theirs, as a package manager does."""
        self.binaries.exchange()

    def workload(self, name: str) -> RunningWorkload:
        return self.mesh.workload(name)

    def lanes(self) -> tuple[tuple[Requests | Questions, Lane], ...]:
        """Return all traffic, and what it passes."""
        outbound = self.workload("caller").instance.addresses.outbound
        backends = frozenset({"backend-1", "backend-2"})
        found: list[tuple[Requests | Questions, Lane]] = [
            (
                Requests(
                    name="http",
                    host=outbound,
                    port=15002,
                    url="http://backend:8080/",
                    authority="backend",
                ),
                Lane(name="http", passes=backends | {"caller"}, needs=frozenset({"caller"})),
            ),
            (
                Requests(name="tcp", host=outbound, port=9000, rate=10),
                Lane(
                    name="tcp",
                    passes=frozenset({"caller", "store"}),
                    needs=frozenset({"caller", "store"}),
                ),
            ),
            (
                Requests(
                    name="gateway", host="127.0.0.1", port=self.edge_port, authority=EDGE_HOST
                ),
                Lane(name="gateway", passes=backends | {"edge"}, needs=frozenset({"edge"})),
            ),
            (
                Questions(
                    name="names",
                    host=self.workload("caller").instance.addresses.inbound,
                    port=15053,
                    ask="backend.default.svc.cluster.local",
                    expect=outbound,
                ),
                Lane(name="names", passes=frozenset(), needs=frozenset({"caller"})),
            ),
        ]
        if self.resolvers:
            found.append(
                (
                    Questions(
                        name="names outside",
                        host=self.workload("caller").instance.addresses.inbound,
                        port=15053,
                        ask=f"RANDOM.{OUTSIDE}",
                        expect=OUTSIDE_ADDRESS,
                        rate=3,
                    ),
                    Lane(name="names outside", passes=frozenset(), needs=frozenset({"caller"})),
                )
            )
        return tuple(found)

    def _requests_to_edge(self) -> Requests:
        return Requests(name="gateway", host="127.0.0.1", port=self.edge_port, authority=EDGE_HOST)

    def edit(self, edition: int) -> None:
        """Save the next configuration, as editors save: by a file in its place."""
        self.edition = edition
        put(self.rules / "edition.yaml", EDITION.format(edition=edition, host=EDGE_HOST))

    async def until_ready(self, name: str) -> None:
        """Wait until the workload, or the control plane, is ready; raises `NotSoon`."""
        seen: list[object] = []

        async def is_ready() -> bool:
            try:
                seen[:] = await self.ready_page(name)
            except (OSError, Unanswered) as error:
                seen[:] = [repr(error)]
            return seen[0] == 200

        await soon(is_ready, what=f"{name} to be ready", seen=lambda: seen)

    async def ready_page(self, name: str) -> tuple[int, bytes]:
        if name == "control plane":
            host, port, page = (
                self.mesh.plan.block.control_plane,
                self.mesh.plan.http_port,
                "/ready",
            )
        else:
            host = self.workload(name).instance.addresses.inbound
            port, page = 15020, "/healthz/ready"
        return await send(Target(host=host, port=port, url=page, timeout_s=5))

    async def until_in_use(self) -> None:
        """Wait until the newest configuration acts in caller and gateway; raises `NotSoon`."""
        for _, lane in self.lanes():
            if lane.name in ("http", "gateway"):
                await self._until_in_use(lane.name)

    async def _until_in_use(self, lane: str) -> None:
        (sent,) = (each for each, _ in self.lanes() if each.name == lane)
        assert isinstance(sent, Requests)
        target = Target(
            host=sent.host,
            port=sent.port,
            url=sent.url,
            authority=sent.authority,
            timeout_s=15,
        )
        seen: list[object] = []

        async def is_in_use() -> bool:
            try:
                _, body = await send(target)
                seen[:] = [json.loads(body)["headers"].get("x-edition")]
            except (OSError, Unanswered, ValueError) as error:
                seen[:] = [repr(error)]
            return seen == [str(self.edition)]

        await soon(is_in_use, what=f"edition {self.edition} to act on {lane}", seen=lambda: seen)

    async def until_current(self, workload: str) -> None:
        """Wait until an agent has a control plane's own configuration, none of it refused."""
        host = self.workload(workload).instance.addresses.inbound
        seen: list[object] = []

        async def is_current() -> bool:
            try:
                status, body = await send(
                    Target(host=host, port=15020, url="/debug/status", timeout_s=5)
                )
                told = json.loads(body)
                xds, certificate = told["xds"], told["certificate"]
            except (OSError, Unanswered, ValueError, KeyError) as error:
                seen[:] = [repr(error)]
                return False
            nacks = [each.get("nack") for each in xds["types"].values()]
            seen[:] = [status, xds.get("stale_since"), nacks, certificate.get("last_error")]
            return bool(
                xds["connected"]
                and xds.get("stale_since") is None
                and not any(nacks)
                and certificate.get("last_error") is None
            )

        await soon(is_current, what=f"{workload} to have all that is current", seen=lambda: seen)

    async def until_renewed(self, workload: str) -> None:
        """Wait until an agent has a certificate that it has not now, and all that is current."""
        before = self.workload(workload).status
        old = None if before is None else before.serial

        def is_renewed() -> bool:
            now = self.workload(workload).status
            return now is not None and now.serial not in (None, old)

        def seen() -> object:
            return self.workload(workload).status

        await soon(is_renewed, what=f"{workload} to renew its certificate", seen=seen)
        await self.until_current(workload)

    async def kill_envoys(self, workload: str) -> None:
        """Kill an agent's Envoys, and wait until the agent is ready again."""
        agent = self.agent(workload)
        pids = agent.envoys()
        with self.dying(workload):
            kill_all(pids)
            await soon(lambda: not any(map(alive, pids)), what="the kernel to end Envoys")
        await self.until_ready(workload)

    @contextmanager
    def dying(self, workload: str) -> Iterator[None]:
        """Note that Envoys of this workload end in this block."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.deaths.append(Death(workload=workload, begun=begun, done=time.monotonic()))

    async def take_away(self, workload: str) -> None:
        """Kill an agent; the kernel ends its Envoys with it."""
        agent = self.agent(workload)
        envoys = agent.envoys()
        self.away_since.setdefault(workload, time.monotonic())
        with self.dying(workload):
            await agent.kill()
            try:
                await soon(
                    lambda: not any(map(alive, envoys)),
                    what=f"the kernel to end the Envoys of {workload} with their agent",
                    patience_s=15,
                )
            except NotSoon as error:
                self.problem(str(error))

    async def bring_back(self, workload: str) -> None:
        """Start the agent again, and wait until it is ready."""
        await self.agent(workload).start()
        await self.until_ready(workload)
        self.absences.append(
            Absence(
                workload=workload,
                begun=self.away_since.pop(workload),
                ended=time.monotonic(),
            )
        )

    def problem(self, sentence: str) -> None:
        self.problems.append((time.monotonic(), sentence))

    def all_absences(self) -> list[Absence]:
        """Return those that have ended, and those that go on."""
        now = time.monotonic()
        going_on = (
            Absence(workload=name, begun=since, ended=now)
            for name, since in self.away_since.items()
        )
        return [*self.absences, *going_on]


def put(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
