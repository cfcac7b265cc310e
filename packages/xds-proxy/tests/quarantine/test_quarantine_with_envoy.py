"""A real Envoy that refuses routes, endpoints and listeners, and others started after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.protobuf.message import Message

from envoy_resources import PACKED, cluster, endpoints, listener, route, status_of
from envoys import running_envoy
from mesh_testkit import find_free_port, until
from relays import RelayStarter, RunningRelay
from xds_planes import DELTA_METHOD, SOTW_METHOD, SnapshotPlane, snapshot_plane
from xds_proxy import SavedConfig

pytestmark = pytest.mark.slow

assert PACKED
ENVOY = "type.googleapis.com/envoy.config."
ROUTE = ENVOY + "route.v3.RouteConfiguration"
ENDPOINT = ENVOY + "endpoint.v3.ClusterLoadAssignment"
LISTENER = ENVOY + "listener.v3.Listener"
API_TYPES = pytest.mark.parametrize("api_type", ["GRPC", "DELTA_GRPC"])


class Setup:
    """A control plane with three listeners, each with routes, and three clusters with endpoints."""

    def __init__(self, binary: Path, sockets: Path, state: Path, api_type: str) -> None:
        self.ports = {name: find_free_port() for name in ("first", "middle", "zlast")}
        self._binary = binary
        self._state = state
        self._api_type = api_type
        self._start_relay = RelayStarter(sockets)

    @asynccontextmanager
    async def plane(self) -> AsyncIterator[SnapshotPlane]:
        method = DELTA_METHOD if self._api_type == "DELTA_GRPC" else SOTW_METHOD
        async with snapshot_plane(method) as plane:
            yield plane

    @asynccontextmanager
    async def relay(self, plane: SnapshotPlane) -> AsyncIterator[RunningRelay]:
        saved = SavedConfig(directory=self._state / "saved", min_interval_s=0.1)
        start = self._start_relay(plane.address, saved=saved, quarantine=True)
        async with start as running:
            yield running

    @asynccontextmanager
    async def envoy(self, running: RunningRelay) -> AsyncIterator[None]:
        async with running_envoy(self._binary, running.socket_path, self._api_type):
            yield

    def resources(
        self,
        status: int,
        *,
        bad_route: str = "",
        bad_endpoints: str = "",
        bad_listener: str = "",
    ) -> list[tuple[str, Message]]:
        """Routes answer with the status."""
        named: list[tuple[str, Message]] = []
        for name, port in self.ports.items():
            named += [
                (name, cluster(name)),
                (name, endpoints(name, status, bad=name == bad_endpoints)),
                (name, listener(name, port, routes=name, bad=name == bad_listener)),
                (name, route(name, status, bad=name == bad_route)),
            ]
        return named

    async def until_answers(self, *expected: int) -> None:
        """Wait until the listeners answer so."""
        seen: list[int] = []

        async def answered() -> bool:
            seen[:] = [await status_of(port) for port in self.ports.values()]
            return seen == list(expected)

        await until(answered, what=f"answers {expected}", seen=lambda: seen)


def quarantined(running: RunningRelay) -> list[tuple[str, str]]:
    return [(each.type_url, each.name) for each in running.relay.status.quarantined]


def refused(running: RunningRelay, type_url: str) -> list[str]:
    known = running.relay.status.types.get(type_url)
    return [] if known is None else [each.name for each in known.refused]


@pytest.fixture
def setup(envoy_binary: Path, socket_dir: Path, tmp_path: Path, api_type: str) -> Setup:
    return Setup(envoy_binary, socket_dir, tmp_path, api_type)


@API_TYPES
async def test_one_bad_route_of_three(setup: Setup) -> None:
    async with setup.plane() as plane, setup.relay(plane) as running:
        plane.set(setup.resources(201))
        async with setup.envoy(running):
            await setup.until_answers(201, 201, 201)
            plane.set(setup.resources(202, bad_route="middle"))
            # Envoy itself would leave off at the bad one: which are in force is left to chance.
            await setup.until_answers(202, 201, 202)
            await running.until(lambda _: refused(running, ROUTE) == ["middle"], what="the refusal")
            assert quarantined(running) == [(ROUTE, "middle")]
            (reason,) = plane.nacks(ROUTE)
            assert "repetition operator" in reason
        given = running.relay.counters.last_good_given
        async with setup.envoy(running):
            await setup.until_answers(202, 201, 202)
            assert running.relay.counters.last_good_given == given + 1
            await running.until(lambda _: plane.nacks(ROUTE) == [reason], what="the refusal above")
            assert refused(running, ROUTE) == ["middle"]
            plane.set(setup.resources(203))
            await setup.until_answers(203, 203, 203)
            assert quarantined(running) == []
            await running.until(lambda _: not plane.nacks(ROUTE), what="no refusal above")
            assert refused(running, ROUTE) == []


@API_TYPES
async def test_one_bad_set_of_endpoints_of_three(setup: Setup) -> None:
    async with setup.plane() as plane, setup.relay(plane) as running:
        plane.set(setup.resources(201))
        async with setup.envoy(running):
            await setup.until_answers(201, 201, 201)
            before = running.relay.held[-1].resources[ENDPOINT]
            plane.set(setup.resources(202, bad_endpoints="middle"))
            await setup.until_answers(202, 202, 202)

            def others_are_newer() -> bool:
                now = running.relay.held[-1].resources[ENDPOINT]
                return all(
                    now[name].version not in ("", before[name].version)
                    for name in ("first", "zlast")
                )

            await running.until(lambda _: others_are_newer(), what="the others in force")
            await running.until(
                lambda _: refused(running, ENDPOINT) == ["middle"], what="the refusal"
            )
            assert quarantined(running) == [(ENDPOINT, "middle")]
        async with setup.envoy(running):
            await setup.until_answers(202, 202, 202)
            await running.until(lambda _: len(plane.nacks(ENDPOINT)) == 1, what="the refusal above")
            assert refused(running, ENDPOINT) == ["middle"]


@API_TYPES
async def test_a_bad_listener_has_its_last_good_version_in_a_fresh_envoy(setup: Setup) -> None:
    async with setup.plane() as plane, setup.relay(plane) as running:
        plane.set(setup.resources(201))
        async with setup.envoy(running):
            await setup.until_answers(201, 201, 201)
            plane.set(setup.resources(202, bad_listener="middle"))
            await setup.until_answers(202, 202, 202)
            await running.until(
                lambda _: quarantined(running) == [(LISTENER, "middle")], what="the refusal"
            )
        async with setup.envoy(running):
            # It has got the last good one, and refuses the newer one by itself.
            await setup.until_answers(202, 202, 202)
            await running.until(
                lambda _: refused(running, LISTENER) == ["middle"], what="its own refusal"
            )


@API_TYPES
async def test_what_was_refused_before_the_agent_was_restarted(setup: Setup) -> None:
    async with setup.plane() as plane:
        plane.set(setup.resources(201))
        async with setup.relay(plane) as running, setup.envoy(running):
            await setup.until_answers(201, 201, 201)
            plane.set(setup.resources(202, bad_route="middle"))
            await setup.until_answers(202, 201, 202)
        async with setup.relay(plane) as running, setup.envoy(running):
            # Nothing is known of the refusal: Envoy refuses it once, and gets the last good one.
            await setup.until_answers(202, 201, 202)
            assert quarantined(running) == [(ROUTE, "middle")]


@API_TYPES
async def test_a_first_version_that_is_bad_keeps_no_other_route_away(setup: Setup) -> None:
    async with setup.plane() as plane, setup.relay(plane) as running:
        plane.set(setup.resources(201, bad_route="middle"))
        for _ in range(2):  # the second Envoy is given it too, as nothing else is known
            async with setup.envoy(running):
                await setup.until_answers(201, 404, 201)
                await running.until(
                    lambda _: refused(running, ROUTE) == ["middle"], what="the refusal"
                )


@API_TYPES
async def test_without_the_quarantine_messages_pass_as_they_are(
    setup: Setup, socket_dir: Path, envoy_binary: Path, api_type: str
) -> None:
    async with setup.plane() as plane, RelayStarter(socket_dir)(plane.address) as running:
        plane.set(setup.resources(201))
        async with running_envoy(envoy_binary, running.socket_path, api_type):
            await setup.until_answers(201, 201, 201)
            plane.set(setup.resources(202, bad_route="middle"))
            await running.until(lambda _: bool(plane.nacks(ROUTE)), what="the refusal")
            assert await status_of(setup.ports["middle"]) == 201
            assert quarantined(running) == []
