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

from mesh_chaos._authority import AuthorityWay
from mesh_chaos._books import Absence, Death
from mesh_chaos._configuration import EDITION, put
from mesh_chaos._lanes import EDGE_HOST, Sent, lanes
from mesh_chaos._parts import Part, kill_all
from mesh_chaos._resolvers import Resolver
from mesh_chaos._traffic import Requests, Traffic
from mesh_chaos._waiting import NotSoon, soon
from mesh_e2e import Target, Unanswered, alive, send
from mesh_local import RunningMesh, RunningWorkload
from mesh_testkit import SmallDisk


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
    traffic: Traffic | None = None
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

    def lanes(self) -> tuple[Sent, ...]:
        """Return all traffic, and what it passes."""
        addresses = self.workload("caller").instance.addresses
        return lanes(
            inbound=addresses.inbound,
            outbound=addresses.outbound,
            edge_port=self.edge_port,
            outside=bool(self.resolvers),
        )

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
                document = json.loads(body)
                xds, certificate = document["xds"], document["certificate"]
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
        if self.traffic is not None:
            self.traffic.pause(workload)  # its program goes with it
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
        if self.traffic is not None:
            self.traffic.resume(workload)

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
