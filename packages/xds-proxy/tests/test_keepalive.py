"""A control plane that takes pings less often than they come ends the connection; Envoy's stays."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from go_planes import build_go_control_plane, go_control_plane
from mesh_lifecycle import in_background
from relays import Messages, RelayStarter
from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane, envoy_stream
from xds_proxy.upstream._keepalive import Keepalive

OFTEN_S = 0.3
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def test_the_interval_doubles_once_for_all_connections_that_end_together() -> None:
    keepalive = Keepalive("istiod:15012", 30.0)
    for _ in range(3):
        keepalive.on_end(UNAVAILABLE, "Too many pings", interval_s=30.0)
    assert keepalive.interval_s == 60.0
    keepalive.on_end(UNAVAILABLE, "GOAWAY received; Debug Text: too_many_pings", interval_s=60.0)
    assert keepalive.interval_s == 120.0


def test_the_interval_stays_for_other_ends() -> None:
    keepalive = Keepalive("istiod:15012", 30.0)
    keepalive.on_end(UNAVAILABLE, "Socket closed", interval_s=30.0)
    keepalive.on_end(grpc.StatusCode.PERMISSION_DENIED, "too many pings", interval_s=30.0)
    assert keepalive.interval_s == 30.0


def test_the_interval_is_bounded() -> None:
    keepalive = Keepalive("istiod:15012", 30.0)
    for _ in range(50):
        keepalive.on_end(UNAVAILABLE, "Too many pings", interval_s=keepalive.interval_s)
    assert keepalive.interval_s == 3600.0


class Answering:
    """Answers the first request of each stream with a version of its own; reads the others."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.had: list[str] = []
        """The version that each stream's first request names."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as streams:
            while True:
                streams.create_task(self._answer(await self._plane.accept()))

    async def _answer(self, stream: ControlPlaneStream) -> None:
        first = Messages.read_request(await stream.receive())
        self.had.append(first.version_info)
        version = f"v{len(self.had)}"
        with suppress(grpc.aio.BaseError):  # the connection may end at any time
            await stream.send(
                Messages.response(Messages.cluster, version=version, nonce="n", bodies=())
            )
            while await stream.receive() is not None:
                pass


@pytest.mark.slow
async def test_a_strict_server_costs_envoy_nothing(
    socket_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "xds_proxy")
    policy = [
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 300_000),
        ("grpc.http2.max_ping_strikes", 1),
    ]
    start = RelayStarter(socket_dir)
    async with (
        control_plane(options=policy) as plane,
        start(plane.address, keepalive_s=OFTEN_S) as running,
        in_background((answering := Answering(plane)).run(), name="control plane"),
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        versions: list[str] = []
        while "v3" not in versions:
            response = await envoy.receive()
            assert response is not None, await envoy.status()
            read = discovery_pb2.DiscoveryResponse.FromString(response)
            versions.append(read.version_info)
            await envoy.send(
                Messages.request(Messages.cluster, version=read.version_info, nonce=read.nonce)
            )
        assert versions == sorted(versions)
        assert answering.had[1] == "v1", "what Envoy has is sent"
        counters = running.relay.counters
        assert counters.envoy_ended == counters.control_plane_failed == 0
        records = [each for each in caplog.records if each.name == "xds_proxy"]
        assert len(records) <= 2 + 2 * len(answering.had)


@pytest.mark.slow
async def test_go_s_own_policy_is_met_in_time(socket_dir: Path, tmp_path: Path) -> None:
    """A server of grpc-go that knows nothing of keepalive ends connections with many pings."""
    start = RelayStarter(socket_dir)
    async with (
        go_control_plane(build_go_control_plane(tmp_path)) as plane,
        start(plane.address, keepalive_s=OFTEN_S) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await plane.set("first")
        await envoy.send(Messages.request(Messages.cluster))
        first = await envoy.receive()
        assert first is not None
        await running.until(
            lambda relay: relay.counters.control_plane_ended >= 2,
            what="two ends for too many pings",
        )
        assert running.relay.counters.control_plane_failed == 0
        await plane.set("repaired")
        second = await envoy.receive()
        assert second is not None
        assert second != first
