"""Questions of an operator's to the control plane, over the stream that Envoy has."""

from __future__ import annotations

import asyncio

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from mesh_testkit import PATIENCE_S
from relays import Messages, RelayStarter, RunningRelay
from xds_proxy import NoAnswer, NotConnected
from xds_proxy.testing import (
    ControlPlane,
    ControlPlaneStream,
    EnvoyStream,
    control_plane,
    envoy_stream,
)

SYNCZ = "istio.io/debug/syncz"


async def connected(plane: ControlPlane, envoy: EnvoyStream) -> ControlPlaneStream:
    await envoy.send(Messages.request(Messages.cluster))
    upstream = await plane.accept()
    await upstream.receive()
    await upstream.send(Messages.response(Messages.cluster, version="1", nonce="1", bodies=()))
    assert await envoy.receive() is not None
    return upstream


def answer(text: bytes, type_url: str = SYNCZ) -> bytes:
    return Messages.response(type_url, version="1", nonce="d", bodies=(text,))


@pytest.mark.parametrize("delta", [False, True], ids=["SotW", "delta"])
async def test_a_question_goes_on_the_stream_and_its_answer_not_to_envoy(
    start_relay: RelayStarter, *, delta: bool
) -> None:
    method = "DeltaAggregatedResources" if delta else "StreamAggregatedResources"
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path, method=method) as envoy,
    ):
        first = Messages.delta_request if delta else Messages.request
        respond = Messages.delta_response if delta else Messages.response
        await envoy.send(first(Messages.cluster))
        upstream = await plane.accept()
        await upstream.receive()
        await upstream.send(respond(Messages.cluster, version="1", nonce="1", bodies=()))
        assert await envoy.receive() is not None
        asking = asyncio.create_task(running.relay.ask(SYNCZ, ["a", "b"], timeout_s=PATIENCE_S))
        asked = await upstream.receive()
        if delta:
            assert list(Messages.read_delta_request(asked).resource_names_subscribe) == ["a", "b"]
        else:
            assert list(Messages.read_request(asked).resource_names) == ["a", "b"]
        await upstream.send(respond(SYNCZ, version="1", nonce="d", bodies=(b"{}",)))
        response = discovery_pb2.DiscoveryResponse.FromString(await asking)
        assert (response.type_url, response.resources[0].value) == (SYNCZ, b"{}")
        marker = respond(Messages.cluster, version="2", nonce="2", bodies=())
        await upstream.send(marker)
        assert await envoy.receive() == marker
        assert SYNCZ not in running.relay.status.types
        assert running.relay.counters.dropped == 0


async def test_one_question_is_asked_at_a_time(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        upstream = await connected(plane, envoy)
        asking = [
            asyncio.create_task(running.relay.ask(SYNCZ, [name], timeout_s=PATIENCE_S))
            for name in "ab"
        ]
        for name in "ab":
            asked = Messages.read_request(await upstream.receive())
            assert list(asked.resource_names) == [name]
            await upstream.send(answer(name.encode()))
        answers = await asyncio.gather(*asking)
        assert [
            discovery_pb2.DiscoveryResponse.FromString(each).resources[0].value for each in answers
        ] == [b"a", b"b"]


async def test_without_an_answer_it_ends_and_a_late_one_goes_nowhere(
    start_relay: RelayStarter,
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        upstream = await connected(plane, envoy)
        with pytest.raises(NoAnswer, match=r"within 0\.01 s"):
            await running.relay.ask(SYNCZ, timeout_s=0.01)
        await upstream.receive()
        await upstream.send(answer(b"late"))
        marker = Messages.response(Messages.cluster, version="2", nonce="2", bodies=())
        await upstream.send(marker)
        assert await envoy.receive() == marker


async def refuses(running: RunningRelay) -> None:
    with pytest.raises(NotConnected):
        await running.relay.ask(SYNCZ, timeout_s=PATIENCE_S)


async def test_without_a_stream_it_says_so(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
    ):
        await refuses(running)
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            await plane.accept()
            await refuses(running)  # it has not answered yet
        with pytest.raises(ValueError, match="no type of Istio's"):
            await running.relay.ask(Messages.cluster)
