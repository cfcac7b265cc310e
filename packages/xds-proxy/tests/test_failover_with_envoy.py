"""Envoy's stream while the control planes above it change."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from relays import Messages, RelayStarter
from upstream_planes import short_lived_connections
from xds_proxy import FurtherAddress
from xds_proxy.testing import ControlPlaneStream, EnvoyStream, control_plane, envoy_stream


async def _pushed(upstream: ControlPlaneStream, envoy: EnvoyStream, version: str) -> None:
    """Push a version and take Envoy's ACK of it."""
    assert await upstream.receive() is not None
    response = Messages.response(Messages.cluster, version=version, nonce=version, bodies=(b"x",))
    await upstream.send(response)
    assert await envoy.receive() == response
    await envoy.send(Messages.request(Messages.cluster, version=version, nonce=version))
    assert await upstream.receive() is not None


async def test_envoys_stream_stays_while_the_second_takes_over(
    start_relay: RelayStarter, free_port: Callable[[], int]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with control_plane() as second:
        further = (FurtherAddress(second.address),)
        async with start_relay(address, further_addresses=further) as running:
            async with envoy_stream(running.socket_path) as envoy:
                async with control_plane(address=address) as first:
                    await envoy.send(Messages.request(Messages.cluster))
                    await _pushed(await first.accept(), envoy, "v1")
                upstream = await second.accept()
                replayed = Messages.read_request(await upstream.receive())
                assert replayed.version_info == "v1"
                response = Messages.response(
                    Messages.cluster, version="v2", nonce="n2", bodies=(b"y",)
                )
                await upstream.send(response)
                assert await envoy.receive() == response
                status = running.relay.status
                assert status.connected
                assert [each.streams for each in status.control_planes] == [0, 1]


async def test_a_black_hole_is_left_without_envoy_noticing(start_relay: RelayStarter) -> None:
    async with control_plane() as hole, control_plane() as good:
        async with start_relay(
            hole.address, further_addresses=(FurtherAddress(good.address),), answer_timeout_s=0.2
        ) as running:
            async with envoy_stream(running.socket_path) as envoy:
                await envoy.send(Messages.request(Messages.cluster))
                await hole.accept()
                await _pushed(await good.accept(), envoy, "v1")


async def test_the_maximum_age_of_connections_is_one_quiet_line_and_not_noticed(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "xds_proxy")
    async with short_lived_connections() as address, start_relay(address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            number = 0
            while running.relay.counters.control_plane_ended < 3:
                number += 1
                await envoy.send(Messages.request(Messages.cluster, version=f"v{number}"))
                assert await envoy.receive() is not None
            assert running.relay.counters.connection_failures == 0
            ends = running.relay.counters.control_plane_ended
    said = [r for r in caplog.records if r.name == "xds_proxy"]
    assert {r.levelno for r in said} == {logging.INFO}
    assert [r.message for r in said].count("the control plane ended the stream") == ends
