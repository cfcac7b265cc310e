"""Requests of the agent's own, such as the health of its application, among those of Envoy."""

from __future__ import annotations

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from relays import Messages, RecordingInterceptor, RelayStarter
from xds_proxy.testing import ControlPlaneStream, control_plane, envoy_stream

HEALTH = "type.googleapis.com/istio.v1.HealthInformation"
DIALECTS = ("StreamAggregatedResources", "DeltaAggregatedResources")


def request_of(method: str, type_url: str) -> bytes:
    if method == "DeltaAggregatedResources":
        return Messages.delta_request(type_url)
    return Messages.request(type_url)


Report = discovery_pb2.DiscoveryRequest | discovery_pb2.DeltaDiscoveryRequest


def report(method: str, error: str | None) -> Report:
    """The report as the control plane should read it: a type, and an error or none."""
    message: Report = discovery_pb2.DiscoveryRequest(type_url=HEALTH)
    if method == "DeltaAggregatedResources":
        message = discovery_pb2.DeltaDiscoveryRequest(type_url=HEALTH)
    if error is not None:
        message.error_detail.code = 13
        message.error_detail.message = error
    return message


async def next_report(upstream: ControlPlaneStream, method: str) -> Report:
    data = await upstream.receive()
    assert data is not None
    return type(report(method, None)).FromString(data)


@pytest.mark.parametrize("method", DIALECTS)
async def test_a_report_waits_for_the_first_request_for_listeners(
    start_relay: RelayStarter, method: str
) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        running.relay.inject(HEALTH, error="GET /: connection refused")
        async with envoy_stream(running.socket_path, method=method) as envoy:
            clusters = request_of(method, Messages.cluster)
            listeners = request_of(method, Messages.listener)
            await envoy.send(clusters)
            upstream = await plane.accept()
            assert await upstream.receive() == clusters
            await envoy.send(listeners)
            assert await upstream.receive() == listeners
            assert await next_report(upstream, method) == report(
                method, "GET /: connection refused"
            )
            running.relay.inject(HEALTH)
            assert await next_report(upstream, method) == report(method, None)
            await envoy.send(clusters)
            assert await upstream.receive() == clusters


@pytest.mark.parametrize("method", DIALECTS)
async def test_only_the_newest_report_is_sent_again_on_each_stream(
    start_relay: RelayStarter, method: str
) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        for error in ("first", "second", None, "third"):
            running.relay.inject(HEALTH, error=error)
        for _ in range(3):
            async with envoy_stream(running.socket_path, method=method) as envoy:
                listeners = request_of(method, Messages.listener)
                await envoy.send(listeners)
                upstream = await plane.accept()
                assert await upstream.receive() == listeners
                assert await next_report(upstream, method) == report(method, "third")
                # A second request for listeners does not repeat it.
                await envoy.send(listeners)
                assert await upstream.receive() == listeners
            await upstream.closed.wait()


async def test_a_report_follows_the_subscriptions_of_interceptors(
    start_relay: RelayStarter,
) -> None:
    async with (
        control_plane() as plane,
        start_relay(plane.address, interceptors=(RecordingInterceptor(),)) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        running.relay.inject(HEALTH)
        await envoy.send(Messages.request(Messages.listener))
        upstream = await plane.accept()
        types = [Messages.read_request(await upstream.receive()).type_url for _ in range(3)]
        assert types == [Messages.listener, Messages.name_table, HEALTH]


async def test_the_leading_stream_reports_and_an_older_one_that_leads_again_too(
    start_relay: RelayStarter,
) -> None:
    method = "StreamAggregatedResources"
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as old:
            await old.send(Messages.request(Messages.listener))
            old_upstream = await plane.accept()
            await old_upstream.receive()
            running.relay.inject(HEALTH, error="one")
            assert await next_report(old_upstream, method) == report(method, "one")
            async with envoy_stream(running.socket_path) as new:
                await new.send(Messages.request(Messages.listener))
                new_upstream = await plane.accept()
                await new_upstream.receive()
                assert await next_report(new_upstream, method) == report(method, "one")
                running.relay.inject(HEALTH, error="two")
                assert await next_report(new_upstream, method) == report(method, "two")
            await new_upstream.closed.wait()
            assert await next_report(old_upstream, method) == report(method, "two")


async def test_an_answer_to_a_report_does_not_reach_envoy(start_relay: RelayStarter) -> None:
    async with (
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        running.relay.inject(HEALTH)
        await envoy.send(Messages.request(Messages.listener))
        upstream = await plane.accept()
        await upstream.receive()
        await upstream.send(Messages.response(HEALTH, version="1", nonce="h", bodies=()))
        clusters = Messages.response(Messages.cluster, version="1", nonce="c", bodies=(b"x",))
        await upstream.send(clusters)
        assert await envoy.receive() == clusters
        assert running.relay.counters.dropped == 0


async def test_types_of_envoy_and_of_interceptors_can_not_be_injected(
    start_relay: RelayStarter,
) -> None:
    async with start_relay("127.0.0.1:1", interceptors=(RecordingInterceptor(),)) as running:
        for type_url in (Messages.listener, Messages.name_table):
            with pytest.raises(ValueError, match="subscribes to"):
                running.relay.inject(type_url)


@pytest.mark.parametrize("method", DIALECTS)
async def test_the_agents_types_are_asked_for_at_the_start_of_each_upstream_stream(
    start_relay: RelayStarter, method: str
) -> None:
    """Envoy asks for listeners when it has resolved the names of its clusters, or given up."""
    async with (
        control_plane() as plane,
        start_relay(plane.address, interceptors=(RecordingInterceptor(),)) as running,
        envoy_stream(running.socket_path, method=method) as envoy,
    ):
        running.relay.inject(HEALTH)
        clusters = request_of(method, Messages.cluster)
        await envoy.send(clusters)
        for _ in range(2):
            upstream = await plane.accept()
            assert await upstream.receive() is not None
            asked = await upstream.receive()
            read = Messages.read_request
            if method == "DeltaAggregatedResources":
                assert Messages.read_delta_request(asked).type_url == Messages.name_table
            else:
                assert read(asked).type_url == Messages.name_table
            await envoy.send(clusters)
            assert await upstream.receive() is not None  # nothing of the agent's came between
            upstream.end()
