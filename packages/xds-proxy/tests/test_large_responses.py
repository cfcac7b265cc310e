"""Large responses hold up nothing else, and the relay's own limits are reported as such."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

import grpc
import pytest

from mesh_protowire import MAX_FIELDS, bytes_field
from mesh_testkit import PATIENCE_S
from relays import Messages, RelayStarter
from xds_proxy import OnDisconnect
from xds_proxy.protocol._dialect import STATE_OF_THE_WORLD
from xds_proxy.testing import control_plane, envoy_stream


class LongestTurn:
    """The most CPU that the event loop's thread used between two iterations."""

    def __init__(self) -> None:
        self.cpu_s = 0.0

    async def watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.cpu_s = max(self.cpu_s, now - last)
            last = now


async def test_a_response_of_many_resources_does_not_hold_the_event_loop(
    start_relay: RelayStarter,
) -> None:
    few = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"",))
    many = bytes_field(2, b"") * 400_000 + few
    began = time.thread_time()
    STATE_OF_THE_WORLD.read_response(many)
    reading_s = time.thread_time() - began
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        upstream = await plane.accept()
        await upstream.receive()
        await upstream.send(few)
        assert await envoy.receive() == few
        longest = LongestTurn()
        watching = asyncio.create_task(longest.watch())
        try:
            await upstream.send(many)
            assert await envoy.receive() == many
            await envoy.send(Messages.request(Messages.cluster, version="1", nonce="1"))
            await upstream.receive()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
    assert longest.cpu_s < reading_s / 2


@pytest.mark.parametrize("by", ["bytes", "fields"])
async def test_a_limit_of_the_relay_s_own_is_reported_as_such(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    caplog.set_level(logging.WARNING)
    if by == "bytes":
        large, said = b"\x12\x80\x80\x40" + bytes(1 << 20), "it has more than 1000000 bytes"
    else:
        large, said = (
            b"\x18\x01" * (MAX_FIELDS + 1),
            f"the message has more than {MAX_FIELDS} fields",
        )
    limit = 1_000_000 if by == "bytes" else 10_000_000
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(
            plane.address, max_message_bytes=limit, on_disconnect=OnDisconnect.END
        ) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        upstream = await plane.accept()
        await upstream.receive()
        with suppress(grpc.aio.InternalError):  # the relay may end the stream before it has all
            await upstream.send(large)
        code, details = await envoy.status()
        counters = running.relay.counters
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details == f"the control plane's response is beyond a limit of the agent's relay: {said}"
    assert (counters.beyond_limit, counters.control_plane_failed) == (1, 0)
    assert [r.message for r in caplog.records if r.name == "xds_proxy"] == [
        "a response is beyond a limit of the relay, its stream is ended"
    ]
