"""Calls of other services pass to the control plane, one for one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from envoy.service.load_stats.v3 import lrs_pb2
from envoy.service.ratelimit.v3 import rls_pb2

from mesh_testkit import PATIENCE_S
from mesh_testkit.certificates import Authority
from mesh_testkit.http2 import connected
from relays import Messages, RelayStarter, server_credentials
from xds_proxy.testing import ControlPlaneStream, control_plane, envoy_stream

LOAD_STATS = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"
RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CERTIFICATES = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
PATHS = (LOAD_STATS, RATE_LIMIT, CERTIFICATES)


@asynccontextmanager
async def channel_to(path: Path) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
        yield channel


def load_stats(
    channel: grpc.aio.Channel,
) -> grpc.aio.StreamStreamCall[lrs_pb2.LoadStatsRequest, lrs_pb2.LoadStatsResponse]:
    method: grpc.aio.StreamStreamMultiCallable[
        lrs_pb2.LoadStatsRequest, lrs_pb2.LoadStatsResponse
    ] = channel.stream_stream(
        LOAD_STATS,
        lrs_pb2.LoadStatsRequest.SerializeToString,
        lrs_pb2.LoadStatsResponse.FromString,
    )
    return method(None)


def report(name: str, *, size: int = 0) -> lrs_pb2.LoadStatsRequest:
    request = lrs_pb2.LoadStatsRequest()
    request.cluster_stats.add(cluster_name=name, cluster_service_name="x" * size)
    return request


async def received(stream: ControlPlaneStream) -> lrs_pb2.LoadStatsRequest:
    message = await stream.receive()
    assert message is not None
    return lrs_pb2.LoadStatsRequest.FromString(message)


async def test_load_reports_pass_in_both_directions_with_the_credentials_of_ads(
    start_relay: RelayStarter, authority: Authority, tmp_path: Path
) -> None:
    root, token = tmp_path / "root-cert.pem", tmp_path / "token"
    root.write_bytes(authority.root_pem)
    token.write_text("workload-token")
    credentials = server_credentials(authority, "127.0.0.1")
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(credentials=credentials, further_paths=PATHS) as plane,
        start_relay(plane.address, root_certificate=root, token_path=token) as running,
        channel_to(running.socket_path) as channel,
    ):
        call = load_stats(channel)
        await call.write(report("first"))
        stream = await plane.accept()
        assert (stream.method, stream.metadata["authorization"]) == (
            "StreamLoadStats",
            "Bearer workload-token",
        )
        assert (await received(stream)).cluster_stats[0].cluster_name == "first"
        await stream.send(lrs_pb2.LoadStatsResponse(clusters=["first"]).SerializeToString())
        answer = await call.read()
        assert isinstance(answer, lrs_pb2.LoadStatsResponse)
        assert list(answer.clusters) == ["first"]
        await call.write(report("second"))
        assert (await received(stream)).cluster_stats[0].cluster_name == "second"
        stream.end(grpc.StatusCode.ABORTED, "enough")
        assert (await call.code(), await call.details()) == (grpc.StatusCode.ABORTED, "enough")
        assert running.relay.counters.passed_calls == 1
        assert running.relay.counters.requests == 0


async def test_a_single_call_is_passed_and_its_half_close(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(further_paths=PATHS) as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
    ):
        ask: grpc.aio.UnaryUnaryMultiCallable[rls_pb2.RateLimitRequest, rls_pb2.RateLimitResponse]
        ask = channel.unary_unary(
            RATE_LIMIT,
            rls_pb2.RateLimitRequest.SerializeToString,
            rls_pb2.RateLimitResponse.FromString,
        )
        call = ask(rls_pb2.RateLimitRequest(domain="web"))
        asking = asyncio.ensure_future(call)
        stream = await plane.accept()
        message = await stream.receive()
        assert message is not None
        assert rls_pb2.RateLimitRequest.FromString(message).domain == "web"
        assert await stream.receive() is None  # its end
        over = rls_pb2.RateLimitResponse(overall_code=rls_pb2.RateLimitResponse.OVER_LIMIT)
        await stream.send(over.SerializeToString())
        stream.end()
        assert (await asking).overall_code == rls_pb2.RateLimitResponse.OVER_LIMIT
        assert await call.code() is grpc.StatusCode.OK


async def test_when_envoy_resets_a_call_so_does_the_relay(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(further_paths=PATHS) as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
    ):
        call = load_stats(channel)
        await call.write(report("first"))
        stream = await plane.accept()
        await received(stream)
        call.cancel()
        await stream.closed.wait()


async def test_a_control_plane_without_the_service_is_no_less_healthy(
    start_relay: RelayStarter,
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        ads = await plane.accept()
        await ads.receive()
        await ads.send(Messages.response(Messages.cluster, version="1", nonce="1", bodies=(b"x",)))
        assert await envoy.receive() is not None
        call = load_stats(channel)
        await call.write(report("first"))
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        assert running.relay.status.connected
        assert [each.last_error for each in running.relay.status.control_planes] == [None]


async def test_only_services_of_envoy_s_are_passed(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(further_paths=PATHS) as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
    ):
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        ask = channel.unary_unary(CERTIFICATES, None, None)
        call = ask(b"")
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        assert running.relay.counters.passed_calls == 0


async def test_without_a_control_plane_a_call_ends_at_once_and_says_why(
    start_relay: RelayStarter, free_port: Callable[[], int]
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        start_relay(f"127.0.0.1:{free_port()}") as running,
        channel_to(running.socket_path) as channel,
    ):
        call = load_stats(channel)
        assert await call.code() is grpc.StatusCode.UNAVAILABLE
        assert "cannot reach the control plane" in (await call.details() or "")


async def test_calls_are_limited_and_there_is_room_again(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(further_paths=PATHS) as plane,
        start_relay(plane.address, max_passed_calls=2) as running,
        channel_to(running.socket_path) as channel,
    ):
        calls = [load_stats(channel) for _ in range(2)]
        for call in calls:
            await call.write(report("first"))
        streams = [await plane.accept() for _ in calls]
        refused = load_stats(channel)
        assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "2 calls" in (await refused.details() or "")
        calls[0].cancel()
        calls[1].cancel()
        for stream in streams:
            await stream.closed.wait()
        again = load_stats(channel)
        await again.write(report("again"))
        await plane.accept()
        again.cancel()


async def test_a_control_plane_that_does_not_read_ends_the_call_and_no_other(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(further_paths=PATHS) as plane,
        start_relay(plane.address, send_timeout_s=2.0) as running,
        channel_to(running.socket_path) as channel,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        ads = await plane.accept()
        call = load_stats(channel)

        async def write() -> None:
            while not call.done():
                await call.write(report("large", size=100_000))

        writing = asyncio.create_task(write())
        stream = await plane.accept()
        # A client of gRPC that is still sending may see the reset before the status.
        code = await call.code()
        assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
        (reason,) = [vars(r)["reason"] for r in caplog.records if r.name == "xds_proxy"]
        assert "has not taken a message" in reason
        await asyncio.wait([writing])
        writing.exception()
        await stream.closed.wait()
        assert running.relay.counters.control_plane_not_reading == 1
        assert not ads.closed.is_set()


async def test_an_envoy_that_does_not_read_a_call_loses_its_connection(
    start_relay: RelayStarter,
) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(PATIENCE_S))
        plane = await stack.enter_async_context(control_plane(further_paths=PATHS))
        running = await stack.enter_async_context(start_relay(plane.address, send_timeout_s=2.0))
        deaf = await stack.enter_async_context(connected(f"unix:{running.socket_path}", window=0))
        await deaf.open(LOAD_STATS, report("first").SerializeToString())
        stream = await plane.accept()
        await stream.send(lrs_pb2.LoadStatsResponse(clusters=["first"]).SerializeToString())
        await deaf.closed.wait()
        await stream.closed.wait()
        assert running.relay.counters.envoy_not_reading == 1
        await running.until(lambda relay: relay.pending_write_bytes == 0, what="nothing pending")


@pytest.mark.parametrize("size", [0, 8 * 1024 * 1024])
async def test_messages_of_any_size_pass_as_they_are(start_relay: RelayStarter, size: int) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane(further_paths=PATHS) as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
    ):
        call = load_stats(channel)
        await call.write(report("first", size=size))
        stream = await plane.accept()
        assert await received(stream) == report("first", size=size)
        call.cancel()
