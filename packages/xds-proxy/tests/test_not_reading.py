"""Neighbours that do not read: Envoys and a control plane that give a stream no room."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import grpc
import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from mesh_listening import Reason
from mesh_testkit import PATIENCE_S, until
from mesh_testkit.http2 import connected
from relays import Messages, RelayStarter
from xds_proxy import OnDisconnect
from xds_proxy.protocol._dialect import SERVICE, STATE_OF_THE_WORLD
from xds_proxy.testing import (
    ControlPlane,
    ControlPlaneStream,
    EnvoyStream,
    control_plane,
    envoy_stream,
)

ADS = f"/{SERVICE}/StreamAggregatedResources"
MANY = 100
BODY = bytes(100_000)
DEAF = """
import asyncio, sys
from contextlib import AsyncExitStack
from mesh_testkit.http2 import connected

async def main():
    path, method, many, request = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    async with AsyncExitStack() as stack:
        for _ in range(many):
            client = await stack.enter_async_context(connected("unix:" + path, window=0))
            await client.open(method, bytes.fromhex(request))
        print("there", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def relays(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the relay logged; gRPC logs too if a call ends while its status is on its way."""
    return [record for record in caplog.records if record.name == "xds_proxy"]


@asynccontextmanager
async def many_deaf(path: Path, request: bytes) -> AsyncIterator[None]:
    """Connections of another process whose streams are never read."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DEAF, str(path), ADS, str(MANY), request.hex()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await child.stdout.readline() == b"there\n"
        yield
    finally:
        child.stdin.close()
        await child.wait()


async def answer_every_stream(plane: ControlPlane, streams: list[ControlPlaneStream]) -> None:
    """Send each stream more than it takes without reading."""

    async def answer(stream: ControlPlaneStream) -> None:
        with suppress(grpc.aio.InternalError, grpc.aio.UsageError):  # it has ended meanwhile
            if await stream.receive() is None:
                return
            for number in range(10):
                await stream.send(
                    Messages.response(
                        Messages.cluster, version=f"{number}", nonce=f"{number}", bodies=(BODY,)
                    )
                )

    async with asyncio.TaskGroup() as group:
        while True:
            stream = await plane.accept()
            streams.append(stream)
            group.create_task(answer(stream), name="answers")


async def passes(upstream: ControlPlaneStream, envoy: EnvoyStream, version: str) -> None:
    """A response comes to Envoy, and its answer to the control plane."""
    async with asyncio.timeout(PATIENCE_S):
        await upstream.send(
            Messages.response(Messages.cluster, version=version, nonce=version, bodies=(BODY,))
        )
        assert await envoy.receive() is not None
        await envoy.send(Messages.request(Messages.cluster, version=version, nonce=version))
        assert Messages.read_request(await upstream.receive()).version_info == version


async def opened(plane: ControlPlane, envoy: EnvoyStream) -> ControlPlaneStream:
    await envoy.send(Messages.request(Messages.cluster))
    upstream = await plane.accept()
    await upstream.receive()
    return upstream


@pytest.mark.parametrize("responses", [0, 1], ids=["its first answer", "a later one"])
async def test_an_envoy_that_does_not_read_is_closed_logged_once_and_counted(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, responses: int
) -> None:
    first = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x",))
    async with control_plane() as plane, start_relay(plane.address, send_timeout_s=1.0) as running:
        async with (
            envoy_stream(running.socket_path) as envoy,
            connected(f"unix:{running.socket_path}", window=responses * (len(first) + 5)) as deaf,
        ):
            upstream = await opened(plane, envoy)
            deaf.reads = False
            stream = await deaf.open(ADS, Messages.request(Messages.cluster))
            unread = await plane.accept()
            for _ in range(responses):
                await unread.send(first)
                async with asyncio.timeout(PATIENCE_S):
                    assert await deaf.receive(stream) == first
            with caplog.at_level(logging.WARNING):
                for _ in range(10):
                    await unread.send(
                        Messages.response(
                            Messages.cluster, version="2", nonce="2", bodies=(b"y" * 1000,)
                        )
                    )
                await passes(upstream, envoy, "v1")
                async with asyncio.timeout(PATIENCE_S):
                    await deaf.closed.wait()
                    await unread.closed.wait()
            await running.until(lambda relay: relay.status.streams == 1, what="its end")
            await passes(upstream, envoy, "v2")
            status = running.relay.status
            assert (status.connected, status.types[Messages.cluster].in_use) == (True, "v2")
        assert running.relay.counters.envoy_not_reading == 1
        assert running.relay.port.refused == {Reason.NOT_READ: 1}
    assert [record.message for record in relays(caplog)] == [
        "Envoy's connection is ended, it does not read"
    ]
    assert vars(relays(caplog)[0])["reason"] == "it has not read for too long"


@pytest.mark.slow
async def test_a_hundred_that_do_not_read_hold_up_no_other_process_and_are_all_ended(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with control_plane() as plane, start_relay(plane.address, send_timeout_s=5.0) as running:
        async with AsyncExitStack() as stack:
            envoy = await stack.enter_async_context(envoy_stream(running.socket_path))
            upstream = await opened(plane, envoy)
            unread: list[ControlPlaneStream] = []
            answering = asyncio.create_task(answer_every_stream(plane, unread))
            try:
                async with many_deaf(running.socket_path, Messages.request(Messages.cluster)):
                    await running.until(
                        lambda relay: relay.counters.crowded_out == MANY - 3, what="all of them"
                    )
                    for number in range(20):
                        await passes(upstream, envoy, f"v{number}")
                    await running.until(lambda relay: relay.status.streams == 1, what="their end")
                    await running.until(lambda relay: not relay.pending_write_bytes, what="all")
                    await passes(upstream, envoy, "after")
            finally:
                answering.cancel()
                await asyncio.wait([answering])
        refused = running.relay.port.refused
        counters = running.relay.counters
    assert refused.keys() == {Reason.NOT_READ}
    # The others had nothing on its way to them, and so were answered that there are too many.
    assert 1 <= counters.envoy_not_reading == refused[Reason.NOT_READ] <= MANY
    messages = [record.message for record in relays(caplog)]
    assert messages.count("ending streams of Envoy's") == 1
    assert (
        messages.count("Envoy's connection is ended, it does not read")
        == counters.envoy_not_reading
    )


@pytest.mark.parametrize("by", ["Envoy", "control plane"])
async def test_what_is_unread_when_its_stream_ends_is_ended_in_its_time(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        control_plane() as plane,
        start_relay(plane.address, send_timeout_s=2.0) as running,
        connected(f"unix:{running.socket_path}", window=0) as deaf,
    ):
        stream = await deaf.open(ADS, Messages.request(Messages.cluster))
        unread = await plane.accept()
        await unread.send(
            Messages.response(Messages.cluster, version="1", nonce="1", bodies=(BODY,))
        )
        await running.until(
            lambda relay: relay.pending_write_bytes >= len(BODY), what="a response unread"
        )
        if by == "Envoy":
            await deaf.finish_sending(stream)
        else:  # its end changes nothing: the next stream is opened
            unread.end(grpc.StatusCode.UNAVAILABLE, "stopping")
            await plane.accept()
        async with asyncio.timeout(PATIENCE_S):
            await deaf.closed.wait()
        await running.until(lambda relay: relay.pending_write_bytes == 0, what="an end of it")
        assert running.relay.counters.envoy_not_reading == 1
    assert [record.message for record in relays(caplog)] == [
        "Envoy's connection is ended, it does not read"
    ]


async def test_with_too_much_unread_the_slowest_are_ended_before_their_time(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    most = len(BODY) * 2
    async with (
        control_plane() as plane,
        start_relay(
            plane.address, send_timeout_s=None, max_message_bytes=most, max_pending_write_bytes=most
        ) as running,
        AsyncExitStack() as stack,
    ):
        for _ in range(3):
            deaf = await stack.enter_async_context(
                connected(f"unix:{running.socket_path}", window=0)
            )
            await deaf.open(ADS, Messages.request(Messages.cluster))
            unread = await plane.accept()
            await unread.send(
                Messages.response(Messages.cluster, version="1", nonce="1", bodies=(BODY,))
            )
        await running.until(lambda relay: relay.status.streams == 1, what="the end of two")
        assert running.relay.counters.envoy_not_reading == 2
    assert {vars(record)["reason"] for record in relays(caplog)} == {
        "it reads slowly while too much waits for slow clients"
    }


class DeafControlPlane:
    """Answers streams without end, and gives them no room to send anything."""

    def __init__(self, response: bytes, *, window: int) -> None:
        self.address = ""
        self.ended = 0
        self._window = window
        self._response = b"\0" + len(response).to_bytes(4) + response

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http.initiate_connection()
        http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: self._window})
        streams: set[int] = set()
        with suppress(ConnectionError):
            writer.write(http.data_to_send())
            while data := await reader.read(65536):
                for event in http.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived) and event.stream_id:
                        streams.add(event.stream_id)
                        http.send_headers(
                            event.stream_id,
                            [(":status", "200"), ("content-type", "application/grpc")],
                        )
                    if isinstance(event, h2.events.StreamReset) and event.stream_id in streams:
                        streams.discard(event.stream_id)
                        self.ended += 1
                for stream in streams:
                    if http.local_flow_control_window(stream) > len(self._response):
                        http.send_data(stream, self._response)
                writer.write(http.data_to_send())
        writer.close()


def has_ended(plane: DeafControlPlane, streams: int) -> bool:
    return plane.ended == streams


@asynccontextmanager
async def deaf_control_plane(response: bytes, *, window: int) -> AsyncIterator[DeafControlPlane]:
    plane = DeafControlPlane(response, window=window)
    server = await asyncio.start_server(plane.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    plane.address = f"{host}:{port}"
    try:
        yield plane
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("window", [0, 1000], ids=["nothing at all", "some"])
async def test_a_control_plane_that_does_not_read_loses_its_stream_and_envoy_keeps_its_own(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, window: int
) -> None:
    caplog.set_level(logging.WARNING)
    response = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x" * 100,))
    request = Messages.request(Messages.cluster, version="1", nonce="1")
    async with (
        deaf_control_plane(response, window=window) as plane,
        start_relay(plane.address, send_timeout_s=2.0) as running,
        envoy_stream(running.socket_path) as envoy,
        asyncio.timeout(PATIENCE_S),
    ):
        await envoy.send(request)
        while running.relay.counters.control_plane_not_reading < 2:
            received = await envoy.receive()
            assert received is not None
            nonce = STATE_OF_THE_WORLD.read_response(received).nonce
            await envoy.send(Messages.request(Messages.cluster, version="1", nonce=nonce))
        await until(partial(has_ended, plane, 2), what="the end of its streams")
        assert running.relay.status.streams == 1
    records = relays(caplog)
    assert {record.message for record in records} == {
        "the control plane does not read, its stream is ended"
    }
    assert "it has not taken a request" in vars(records[0])["reason"]


@pytest.mark.parametrize("how", ["reset", "half-closed"])
async def test_an_envoy_that_goes_while_a_request_waits_for_the_control_plane_leaves_nothing(
    start_relay: RelayStarter, how: str
) -> None:
    """Whatever the control plane does with the request of one that is gone."""
    response = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x" * 100,))
    tasks = 0
    async with (
        deaf_control_plane(response, window=0) as plane,
        start_relay(plane.address, send_timeout_s=None) as running,
    ):
        for gone in range(1, 4):
            async with envoy_stream(running.socket_path) as envoy, asyncio.timeout(PATIENCE_S):
                await envoy.send(Messages.request(Messages.cluster))
                assert await envoy.receive() is not None
                assert running.relay.pending_write_bytes > 0
                if how == "reset":
                    envoy.cancel()
                else:
                    await envoy.finish_sending()
                await until(partial(has_ended, plane, gone), what="the end of its stream")
            await running.until(
                lambda relay: relay.status.streams == 0 and relay.pending_write_bytes == 0,
                what="the end of Envoy's stream and of the request",
            )
            assert [each.streams for each in running.relay.status.control_planes] == [0]
            if gone == 1:  # gRPC keeps some tasks of its own from its first stream on
                tasks = len(asyncio.all_tasks())
        await until(lambda: len(asyncio.all_tasks()) <= tasks, what="the end of its tasks")
        counters = running.relay.counters
        assert counters.envoy_ended == 3
        assert (counters.control_plane_not_reading, counters.connection_failures) == (0, 0)


async def test_where_envoys_stream_ends_too_its_status_says_that_the_control_plane_does_not_read(
    start_relay: RelayStarter,
) -> None:
    response = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x" * 100,))
    request = Messages.request(Messages.cluster, version="1", nonce="1")
    async with (
        deaf_control_plane(response, window=0) as plane,
        start_relay(plane.address, send_timeout_s=1.0, on_disconnect=OnDisconnect.END) as running,
        envoy_stream(running.socket_path) as envoy,
        asyncio.timeout(PATIENCE_S),
    ):
        await envoy.send(request)
        while await envoy.receive() is not None:
            await envoy.send(request)
        code, details = await envoy.status()
    assert code is grpc.StatusCode.UNAVAILABLE
    assert details.startswith("the control plane does not read: it has not taken a request")


async def test_requests_that_wait_for_the_control_plane_are_bounded(
    start_relay: RelayStarter,
) -> None:
    """The next stream gets the newest of each type, whatever waited for the one before."""
    response = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x",))
    async with (
        deaf_control_plane(response, window=0) as plane,
        start_relay(plane.address, send_timeout_s=None, max_queued_bytes=1_000_000) as running,
        envoy_stream(running.socket_path) as envoy,
        asyncio.timeout(PATIENCE_S),
    ):
        await envoy.send(Messages.request(Messages.cluster))
        assert await envoy.receive() == response
        for _ in range(11):
            await envoy.send(Messages.request(Messages.cluster, version="1" * 100_000))
        await running.until(
            lambda relay: relay.counters.control_plane_not_reading == 1, what="an end of it"
        )
        assert await envoy.receive() is not None
        await running.until(
            lambda relay: relay.pending_write_bytes < 300_000, what="the newest request alone"
        )


async def test_subscriptions_beyond_the_bound_end_envoys_stream(start_relay: RelayStarter) -> None:
    async with (
        control_plane() as plane,
        start_relay(plane.address, max_queued_bytes=1_000_000) as running,
        envoy_stream(running.socket_path) as envoy,
        asyncio.timeout(PATIENCE_S),
    ):
        for number in range(11):
            await envoy.send(Messages.request(f"type-{number}", version="1" * 100_000))
        assert await envoy.receive() is None
        code, details = await envoy.status()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "more than 1000000 bytes" in details


async def test_responses_pass_while_the_control_plane_does_not_read(
    start_relay: RelayStarter,
) -> None:
    response = Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x",))
    async with (
        deaf_control_plane(response, window=0) as plane,
        start_relay(plane.address, send_timeout_s=None) as running,
        envoy_stream(running.socket_path) as envoy,
        asyncio.timeout(PATIENCE_S),
    ):
        for _ in range(5):
            await envoy.send(Messages.request(Messages.cluster, version="1", nonce="1"))
        assert await envoy.receive() == response
        assert running.relay.counters.control_plane_not_reading == 0
