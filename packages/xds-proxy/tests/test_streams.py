"""How streams begin and end, and what Envoy, the control plane and the log are sent."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest

from mesh_testkit import until
from relays import Messages, RelayStarter
from xds_proxy import OnDisconnect
from xds_proxy.testing import (
    ControlPlane,
    ControlPlaneStream,
    EnvoyStream,
    control_plane,
    envoy_stream,
)


def _said(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    records = [record for record in caplog.records if record.getMessage() == message]
    return [str(getattr(record, "reason", "")) for record in records]


async def _first_answer(plane: ControlPlane, envoy: EnvoyStream) -> ControlPlaneStream:
    await envoy.send(Messages.request(Messages.cluster))
    upstream = await plane.accept()
    await _answers(upstream, envoy)
    return upstream


async def _answers(upstream: ControlPlaneStream, envoy: EnvoyStream) -> None:
    await upstream.receive()
    await upstream.send(
        Messages.response(Messages.cluster, version="v1", nonce="n1", bodies=(b"x",))
    )
    assert await envoy.receive() is not None


async def test_many_reconnects_leave_nothing(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        upstreams = []
        for _ in range(8):
            async with envoy_stream(running.socket_path) as envoy:
                upstreams.append(await _first_answer(plane, envoy))
        for upstream in upstreams:
            await upstream.closed.wait()
        await running.until(lambda relay: relay.status.streams == 0, what="the end of all streams")


@pytest.mark.parametrize("how", ["half-close", "reset"])
async def test_envoys_end_ends_the_upstream_stream(start_relay: RelayStarter, how: str) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            upstream = await _first_answer(plane, envoy)
            if how == "half-close":
                await envoy.finish_sending()
            else:
                envoy.cancel()
            await upstream.closed.wait()
    assert running.relay.counters.envoy_ended == 1


ORDINARY = [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED]


@pytest.mark.parametrize("code", [*ORDINARY, grpc.StatusCode.INTERNAL])
async def test_where_streams_end_together_the_control_planes_status_reaches_envoy(
    start_relay: RelayStarter, code: grpc.StatusCode
) -> None:
    async with (
        control_plane() as plane,
        start_relay(plane.address, on_disconnect=OnDisconnect.END) as running,
    ):
        for _ in range(2):
            async with envoy_stream(running.socket_path) as envoy:
                upstream = await _first_answer(plane, envoy)
                upstream.end(code, "time to go")
                assert await envoy.receive() is None
                status, details = await envoy.status()
                assert status is code
                assert details == ("" if code is grpc.StatusCode.OK else "time to go")


async def test_where_streams_end_together_an_absent_control_plane_ends_envoys(
    start_relay: RelayStarter, free_port: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with start_relay(address, on_disconnect=OnDisconnect.END) as running:
        for _ in range(3):
            async with envoy_stream(running.socket_path) as envoy:
                assert await envoy.receive() is None
                code, details = await envoy.status()
                assert code is grpc.StatusCode.UNAVAILABLE
                assert address in details
                assert "connection refused" in details
        assert running.relay.counters.connection_failures == 3
    assert _said(caplog, "cannot reach the control plane") == ["connection refused"]


@pytest.mark.parametrize("code", ORDINARY)
async def test_an_ordinary_end_is_quiet_and_the_next_stream_is_opened(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, code: grpc.StatusCode
) -> None:
    """Such as that of a stream that has reached its greatest age."""
    caplog.set_level(logging.INFO)
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            upstream = await _first_answer(plane, envoy)
            since = running.relay.status.since
            upstream.end(code, "max_age")
            again = await plane.accept()
            assert Messages.read_request(await again.receive()).type_url == Messages.cluster
            await again.send(
                Messages.response(Messages.cluster, version="v2", nonce="n2", bodies=(b"x",))
            )
            assert await envoy.receive() is not None
            status = running.relay.status
            assert (status.connected, status.last_error, status.streams) == (True, None, 1)
            # On a machine that is slow enough it was away for a moment too long.
            if "connected to the control plane again" not in caplog.text:
                assert status.since == since
            counters = running.relay.counters
            assert (counters.control_plane_ended, counters.envoy_ended) == (1, 0)
    assert [
        r.levelno for r in caplog.records if r.getMessage().startswith("the control plane")
    ] == [logging.INFO]


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ],
)
async def test_an_end_with_an_error_is_logged_once_and_the_next_stream_is_opened(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, code: grpc.StatusCode
) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            upstream = await _first_answer(plane, envoy)
            plane.refusal = (code, "a reason")
            upstream.end(code, "a reason")
            await running.until(
                lambda relay: relay.counters.connection_failures >= 6, what="six refusals"
            )
            await running.until(lambda relay: not relay.status.connected, what="an end of it")
            assert "a reason" in str(running.relay.status.last_error)
            plane.refusal = None
            again = await plane.accept()
            assert Messages.read_request(await again.receive()).type_url == Messages.cluster
            assert running.relay.status.streams == 1
    warnings = [r for r in caplog.records if r.name == "xds_proxy" and r.levelno > logging.INFO]
    # The end of the stream, and if that took more than a moment, that there is no next one; on a
    # busy machine a further reason may come between.
    assert 1 <= len(warnings) <= 3, warnings
    assert code.name in vars(warnings[0])["reason"] or "a reason" in vars(warnings[0])["reason"]


async def test_a_control_plane_that_ends_each_stream_at_once_is_not_called_without_a_pause(
    start_relay: RelayStarter,
) -> None:
    """Also not if it answers each: the delays grow, so there are few streams in the end."""
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            began = asyncio.get_running_loop().time()
            for number in range(8):
                upstream = await plane.accept()
                await upstream.send(
                    Messages.response(Messages.cluster, version="v", nonce=str(number), bodies=())
                )
                assert await envoy.receive() is not None
                upstream.end(grpc.StatusCode.UNAVAILABLE)
            # Without jitter 0.1 s, and each 1.3 times the one before; at least half of each.
            assert asyncio.get_running_loop().time() - began >= 0.5 * 0.1 * 7
            assert running.relay.status.streams == 1


async def test_envoys_stream_waits_for_a_control_plane_that_is_away(
    start_relay: RelayStarter,
    free_port: Callable[[], int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    address = f"127.0.0.1:{free_port()}"
    async with start_relay(address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await running.until(
                lambda relay: relay.counters.connection_failures >= 3, what="a third try"
            )
            status = running.relay.status
            assert (status.connected, status.last_error) == (False, "connection refused")
            async with control_plane(address=address) as plane:
                await _first_answer(plane, envoy)
                status = running.relay.status
                assert (status.connected, status.last_error) == (True, None)
    assert _said(caplog, "cannot reach the control plane") == ["connection refused"]
    assert len(_said(caplog, "connected to the control plane")) == 1


async def test_envoy_may_leave_while_the_control_plane_is_away(
    start_relay: RelayStarter, free_port: Callable[[], int]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with start_relay(address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            await running.until(
                lambda relay: relay.counters.connection_failures >= 1, what="a first try"
            )
            envoy.cancel()
            await running.until(lambda relay: relay.counters.envoy_ended == 1, what="Envoy's end")
        async with control_plane(address=address) as plane:
            async with envoy_stream(running.socket_path) as envoy:
                await _first_answer(plane, envoy)


async def test_a_control_plane_that_restarts_slowly_is_logged_when_it_goes_and_comes(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with control_plane() as plane, start_relay(plane.address) as running:
        address = plane.address
        async with envoy_stream(running.socket_path) as envoy:
            upstream = await _first_answer(plane, envoy)
            plane.refusal = (grpc.StatusCode.UNAVAILABLE, "not ready yet")
            upstream.end(grpc.StatusCode.UNAVAILABLE, "stopping")
            await until(
                lambda: _said(caplog, "cannot reach the control plane") != [], what="a warning"
            )
            assert "not ready yet" in str(running.relay.status.last_error)
            plane.refusal = None
            await _answers(await plane.accept(), envoy)
            assert running.relay.status.connected
    assert [r.getMessage() for r in caplog.records if getattr(r, "address", None) == address] == [
        "connected to the control plane",
        "the control plane ended the stream",
        "cannot reach the control plane",
        "connected to the control plane again",
    ]
    (reason,) = _said(caplog, "cannot reach the control plane")
    assert "not ready yet" in reason


async def test_a_control_plane_that_comes_just_after_it_was_away_is_reached(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    """The first connection ends as if there were no server; the next, to find out why, meets it."""
    async with control_plane() as plane, _grpc_acceptor(plane.address, ending_first=1) as address:
        async with start_relay(address) as running:
            async with envoy_stream(running.socket_path) as envoy:
                await _first_answer(plane, envoy)
                assert running.relay.counters.connection_failures == 0
    assert _said(caplog, "cannot reach the control plane") == []


async def test_no_connection_waits_for_the_garbage_collector_to_be_closed(
    start_relay: RelayStarter,
) -> None:
    gc.disable()
    try:
        async with control_plane() as plane, _grpc_acceptor(plane.address) as address:
            async with start_relay(address) as running:
                async with envoy_stream(running.socket_path) as envoy:
                    await _first_answer(plane, envoy)
    finally:
        gc.enable()


@asynccontextmanager
async def _grpc_acceptor(address: str, *, ending_first: int = 0) -> AsyncIterator[str]:
    """Ends so many connections at once, and passes all later ones on until they are closed."""
    host, _, port = address.rpartition(":")
    came = 0
    handlers: list[asyncio.Task[None] | None] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        handlers.append(asyncio.current_task())
        if came <= ending_first:
            writer.close()
            return
        to_plane = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, to_plane[1]), copy(to_plane[0], writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with asyncio.timeout(60):
        await asyncio.gather(*filter(None, handlers))


@asynccontextmanager
async def _silent_server() -> AsyncIterator[str]:
    """Takes connections and says nothing."""
    held: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in held:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


@pytest.mark.slow
async def test_a_silent_control_plane_is_logged_after_the_connect_timeout(
    start_relay: RelayStarter,
) -> None:
    async with _silent_server() as address:
        # It bounds the search for the reason too, which must find that the port is open.
        async with start_relay(address, connect_timeout_s=5.0) as running:
            async with envoy_stream(running.socket_path):
                await running.until(
                    lambda relay: "does not speak plaintext gRPC" in str(relay.status.last_error),
                    what="the reason",
                )
                assert running.relay.status.streams == 1


async def test_connecting_is_given_up_at_the_end(start_relay: RelayStarter) -> None:
    async with _silent_server() as address:
        async with start_relay(address, connect_timeout_s=600) as running:
            stream = envoy_stream(running.socket_path)
            envoy = await stream.__aenter__()
            await envoy.send(b"")
            await running.until(lambda relay: relay.status.streams == 1, what="a stream")
        assert await envoy.receive() is None
        code, details = await envoy.status()
        assert (code, details) == (grpc.StatusCode.UNAVAILABLE, "the agent is stopping")
        await stream.__aexit__(None, None, None)


async def test_a_message_beyond_the_bound_ends_the_upstream_stream(
    start_relay: RelayStarter,
) -> None:
    async with control_plane() as plane:
        async with start_relay(plane.address, max_message_bytes=100_000) as running:
            async with envoy_stream(running.socket_path) as envoy:
                upstream = await _first_answer(plane, envoy)
                await upstream.send(b"x" * 100_001)
                await upstream.closed.wait()
                await _answers(await plane.accept(), envoy)
                assert running.relay.counters.beyond_limit == 1
                assert running.relay.counters.control_plane_failed == 0


async def test_a_request_beyond_the_bound_ends_envoys_stream(start_relay: RelayStarter) -> None:
    async with control_plane() as plane:
        async with start_relay(plane.address, max_message_bytes=100_000) as running:
            async with envoy_stream(running.socket_path) as envoy:
                upstream = await _first_answer(plane, envoy)
                await envoy.send(b"x" * 100_001)
                assert await envoy.receive() is None
                assert (await envoy.status())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
                await upstream.closed.wait()


async def test_leaving_ends_envoys_stream_and_removes_the_socket(start_relay: RelayStarter) -> None:
    async with control_plane() as plane:
        async with start_relay(plane.address) as running:
            path: Path = running.socket_path
            stream = envoy_stream(path)
            envoy = await stream.__aenter__()
            upstream = await _first_answer(plane, envoy)
        assert await envoy.receive() is None
        assert (await envoy.status())[0] is grpc.StatusCode.UNAVAILABLE
        await upstream.closed.wait()
        await stream.__aexit__(None, None, None)
    with pytest.raises(FileNotFoundError):
        os.lstat(path)


async def test_versions_in_use_outlive_a_stream(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            upstream = await _first_answer(plane, envoy)
            await envoy.send(Messages.request(Messages.cluster, version="v1", nonce="n1"))
            await upstream.receive()
        await upstream.closed.wait()
        assert running.relay.status.types[Messages.cluster].in_use == "v1"
