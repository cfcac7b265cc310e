"""Several streams of Envoy's at once: a hot restart, or one that is back before it was gone."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import grpc
import pytest

from relays import Messages, RecordingInterceptor, RelayStarter, RunningRelay, relays_errors
from xds_proxy._config import MAX_STREAMS
from xds_proxy.testing import (
    ControlPlane,
    ControlPlaneStream,
    EnvoyStream,
    control_plane,
    envoy_stream,
)


async def _open(plane: ControlPlane, envoy: EnvoyStream, version: str) -> ControlPlaneStream:
    """A stream with one version of clusters, accepted; returns the control plane's end."""
    await envoy.send(Messages.request(Messages.cluster))
    upstream = await plane.accept()
    await upstream.receive()
    await _accepts(upstream, envoy, version)
    return upstream


async def _accepts(upstream: ControlPlaneStream, envoy: EnvoyStream, version: str) -> None:
    await upstream.send(
        Messages.response(Messages.cluster, version=version, nonce=f"n-{version}", bodies=(b"x",))
    )
    assert await envoy.receive() is not None
    await envoy.send(Messages.request(Messages.cluster, version=version, nonce=f"n-{version}"))
    await upstream.receive()


async def _until_streams(running: RunningRelay, count: int) -> None:
    await running.until(lambda relay: relay.status.streams == count, what=f"{count} streams")


async def test_two_envoys_are_served_side_by_side(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as old:
            old_upstream = await _open(plane, old, "v1")
            async with envoy_stream(running.socket_path) as new:
                new_upstream = await _open(plane, new, "v2")
                await _accepts(old_upstream, old, "v3")
                await _accepts(new_upstream, new, "v4")
                status = running.relay.status
                assert (status.streams, status.connected) == (2, True)
                assert status.types[Messages.cluster].in_use == "v4"
            await new_upstream.closed.wait()
            await _until_streams(running, 1)
            await _accepts(old_upstream, old, "v5")
            status = running.relay.status
            assert (status.connected, status.types[Messages.cluster].in_use) == (True, "v5")


async def test_the_old_envoy_s_end_does_not_touch_the_new_one(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        old_stream = envoy_stream(running.socket_path)
        old = await old_stream.__aenter__()
        old_upstream = await _open(plane, old, "v1")
        async with envoy_stream(running.socket_path) as new:
            new_upstream = await _open(plane, new, "v2")
            old.cancel()
            await old_upstream.closed.wait()
            await _until_streams(running, 1)
            assert running.relay.status.connected
            assert running.relay.status.types[Messages.cluster].in_use == "v2"
            await _accepts(new_upstream, new, "v3")
        await old_stream.__aexit__(None, None, None)


async def test_an_old_stream_that_is_no_longer_read_holds_up_no_other(
    start_relay: RelayStarter,
) -> None:
    """As when Envoy lost its connection and is back before the old one is seen to be dead."""
    large = Messages.response(
        Messages.cluster, version="v2", nonce="large", bodies=(b"x" * 5_000_000,)
    )

    async def push(upstream: ControlPlaneStream) -> None:
        while True:
            await upstream.send(large)

    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as old:
            old_upstream = await _open(plane, old, "v1")
            pushing = asyncio.create_task(push(old_upstream), name="push")
            await running.until(lambda relay: relay.counters.responses >= 3, what="three responses")
            async with envoy_stream(running.socket_path) as new:
                new_upstream = await _open(plane, new, "v2")
                await _accepts(new_upstream, new, "v3")
                assert running.relay.status.types[Messages.cluster].in_use == "v3"
                assert not old_upstream.closed.is_set()
                old.cancel()
                await old_upstream.closed.wait()
                await _accepts(new_upstream, new, "v4")
            pushing.cancel()
            # The write under way may have failed already, as its stream has ended.
            await asyncio.gather(pushing, return_exceptions=True)


async def test_a_new_envoy_that_has_nothing_yet_is_shown_so(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as old:
            await _open(plane, old, "v1")
            async with envoy_stream(running.socket_path) as new:
                await new.send(Messages.request(Messages.cluster))
                upstream = await plane.accept()
                await upstream.receive()
                await running.until(
                    lambda relay: Messages.cluster not in relay.status.types, what="its status"
                )
            await upstream.closed.wait()
            await _until_streams(running, 1)
            status = running.relay.status
            assert status.connected
            assert status.types[Messages.cluster].in_use == "v1"


async def test_what_became_of_the_old_stream_is_counted_and_no_more(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as old:
            old_upstream = await _open(plane, old, "v1")
            async with envoy_stream(running.socket_path) as new:
                await _open(plane, new, "v2")
                old_upstream.end(grpc.StatusCode.INTERNAL, "broken")
                await running.until(
                    lambda relay: relay.counters.control_plane_failed == 1, what="its end"
                )
                status = running.relay.status
                assert (status.connected, status.last_error, status.streams) == (True, None, 2)
    assert relays_errors(caplog) == []


async def test_one_stream_at_a_time_feeds_the_agent(start_relay: RelayStarter) -> None:
    recorder = RecordingInterceptor()

    def table(name: str) -> bytes:
        message = Messages.response(
            Messages.name_table, version=name, nonce=f"n-{name}", bodies=(name.encode(),)
        )
        return bytes(message)

    async with control_plane() as plane:
        async with start_relay(plane.address, interceptors=(recorder,)) as running:
            async with envoy_stream(running.socket_path) as old:
                await old.send(Messages.request(Messages.listener))
                old_upstream = await plane.accept()
                await old_upstream.receive()
                assert Messages.read_request(await old_upstream.receive()).type_url == (
                    Messages.name_table
                )
                await old_upstream.send(table("first"))
                await old_upstream.receive()
                async with envoy_stream(running.socket_path) as new:
                    await new.send(Messages.request(Messages.listener))
                    new_upstream = await plane.accept()
                    await new_upstream.receive()
                    await new_upstream.receive()
                    await new_upstream.send(table("second"))
                    await new_upstream.receive()
                    for name in ("third", "fourth"):
                        await old_upstream.send(table(name))
                    await _accepts(old_upstream, old, "v1")
                    assert recorder.taken == [b"first", b"second"]
                await new_upstream.closed.wait()
                answer = Messages.read_request(await old_upstream.receive())
                assert (answer.version_info, answer.response_nonce) == ("fourth", "n-fourth")
                assert recorder.taken == [b"first", b"second", b"fourth"]
                assert running.relay.status.types[Messages.name_table].in_use == "fourth"


async def test_an_older_stream_that_takes_over_subscribes(start_relay: RelayStarter) -> None:
    async with control_plane() as plane:
        async with start_relay(plane.address, interceptors=(RecordingInterceptor(),)) as running:
            async with envoy_stream(running.socket_path) as old:
                await _until_streams(running, 1)
                old_upstream = await plane.accept()
                async with envoy_stream(running.socket_path):
                    await _until_streams(running, 2)
                    await old.send(Messages.request(Messages.listener))
                    request = Messages.read_request(await old_upstream.receive())
                    assert request.type_url == Messages.listener
                request = Messages.read_request(await old_upstream.receive())
                assert request.type_url == Messages.name_table


async def test_one_stream_too_many_ends_the_oldest_and_says_why(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        contexts = [envoy_stream(running.socket_path) for _ in range(MAX_STREAMS + 1)]
        envoys, upstreams = [], []
        for number, context in enumerate(contexts):
            envoys.append(await context.__aenter__())
            upstreams.append(await _open(plane, envoys[-1], f"v{number}"))
        assert await envoys[0].receive() is None
        code, details = await envoys[0].status()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"more than {MAX_STREAMS} streams" in details
        await upstreams[0].closed.wait()
        assert running.relay.status.streams == MAX_STREAMS
        await _accepts(upstreams[1], envoys[1], "w1")
        for context in contexts:
            await context.__aexit__(None, None, None)


async def test_how_many_there_may_be_is_a_setting(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address, max_streams=7) as running:
        async with AsyncExitStack() as stack:
            for number in range(7):
                client = await stack.enter_async_context(envoy_stream(running.socket_path))
                await _open(plane, client, f"v{number}")
            assert running.relay.status.streams == 7
            assert running.relay.counters.crowded_out == 0


async def test_leaving_ends_all_of_them(start_relay: RelayStarter) -> None:
    async with control_plane() as plane:
        contexts = []
        envoys = []
        async with start_relay(plane.address) as running:
            for _ in range(2):
                contexts.append(envoy_stream(running.socket_path))
                envoys.append(await contexts[-1].__aenter__())
                await _open(plane, envoys[-1], "v1")
        for context, envoy in zip(contexts, envoys, strict=True):
            assert await envoy.receive() is None
            assert (await envoy.status())[1] == "the agent is stopping"
            await context.__aexit__(None, None, None)
