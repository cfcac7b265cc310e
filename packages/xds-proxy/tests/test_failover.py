"""Several control planes: a later one is used while an earlier one fails, over real connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc
import pytest

from mesh_testkit import until
from mesh_testkit.certificates import Authority
from relays import Messages, RelayStarter, server_credentials
from upstream_planes import SOON, ads, end_of, exchange, patiently, planes_for, silent_server
from xds_proxy import FurtherAddress
from xds_proxy.testing import control_plane, envoy_stream
from xds_proxy.upstream._control_planes import ControlPlanes
from xds_proxy.upstream._upstream_error import UpstreamError


def _healthy(planes: ControlPlanes) -> list[bool | None]:
    return [status.healthy for status in planes.statuses]


async def test_the_second_is_used_when_the_first_refuses_connections(
    free_port: Callable[[], int],
) -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with control_plane() as plane, planes_for(dead, plane.address) as planes:
        assert _healthy(planes) == [None, None]
        async with ads(planes) as call:
            assert call.address == plane.address
            await exchange(call, plane)
            assert _healthy(planes) == [False, True]
            first, second = planes.statuses
            assert (first.last_error, first.streams) == ("connection refused", 0)
            assert (second.last_error, second.streams) == (None, 1)
        assert planes.statuses[1].streams == 0


async def test_the_second_is_used_when_the_first_takes_connections_and_says_nothing() -> None:
    async with silent_server() as silent, control_plane() as plane:
        async with planes_for(silent, plane.address, connect_timeout_s=0.2) as planes:
            async with patiently(planes) as call:
                assert call.address == plane.address
            assert planes.statuses[0].last_error is not None


async def test_a_handshake_that_is_not_answered_is_said_without_another_try(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("roots") / "root.pem"
    root.write_bytes(authority.root_pem)
    async with silent_server() as silent:
        async with planes_for(silent, root=root, connect_timeout_s=0.2) as planes:
            with pytest.raises(UpstreamError) as caught:
                async with ads(planes):
                    pass
            assert caught.value.reason == "no answer within 0.2 s"


async def test_the_second_is_used_when_the_first_has_another_root(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("roots") / "root.pem"
    root.write_bytes(authority.root_pem)
    strange = server_credentials(Authority(), "127.0.0.1")
    own = server_credentials(authority, "127.0.0.1")
    async with control_plane(credentials=strange) as first:
        async with control_plane(credentials=own) as second:
            async with planes_for(first.address, second.address, root=root) as planes:
                async with ads(planes) as call:
                    await exchange(call, second)
                assert "wrong root certificate" in str(planes.statuses[0].last_error)


async def test_the_second_is_used_when_the_first_refuses_the_stream() -> None:
    async with control_plane() as first, control_plane() as second:
        first.refusal = (grpc.StatusCode.PERMISSION_DENIED, "no such identity")
        async with planes_for(first.address, second.address) as planes:
            async with ads(planes) as call:
                assert await end_of(call) == first.refusal
                assert call.failure is not None
                assert call.failure.startswith("permission denied")
            await planes.wait_to_retry()
            async with ads(planes) as call:
                await exchange(call, second)
            assert planes.statuses[0].last_error is not None


async def test_a_black_hole_is_left_for_the_second() -> None:
    async with control_plane() as hole, control_plane() as good:
        async with planes_for(hole.address, good.address, answer_timeout_s=0.1) as planes:
            async with ads(planes) as call:
                await call.write(Messages.request(Messages.cluster))
                stream = await hole.accept()
                code, details = await end_of(call)
                assert code is grpc.StatusCode.UNAVAILABLE
                assert details == "it takes streams but has not answered one for 0.1 s"
                assert call.failure == details
                await stream.closed.wait()
            await planes.wait_to_retry()
            async with ads(planes) as call:
                await exchange(call, good)


async def test_a_write_to_a_stream_that_was_given_up_is_an_ordinary_error() -> None:
    async with control_plane() as hole, control_plane() as good:
        async with planes_for(hole.address, good.address, answer_timeout_s=0.1) as planes:
            async with ads(planes) as call:
                with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
                    while True:  # until flow control stops it, and then the end
                        await call.write(b"x" * 100_000)


async def test_a_black_hole_without_another_is_logged_once_and_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with control_plane() as hole, planes_for(hole.address, answer_timeout_s=0.05) as planes:
        async with ads(planes) as call:
            await call.write(Messages.request(Messages.cluster))
            stream = await hole.accept()
            message = "it takes streams but has not answered one for 0.05 s"
            await until(lambda: planes.statuses[0].last_error == message, what="the word")
            since = planes.statuses[0].since
            # It would be logged again at the next interval, if it were logged each time.
            await until(lambda: planes._selection.entries[0].again.last_s > 0.2, what="repetitions")
            await stream.send(b"answer")
            assert await call.read() == b"answer"
            assert planes.statuses[0].healthy is True
            assert planes.statuses[0].since > since
    said = [r for r in caplog.records if r.message == "the control plane does not answer"]
    assert len(said) == 1


async def test_streams_move_back_when_the_first_can_be_connected_to_again(
    free_port: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    address = f"127.0.0.1:{free_port()}"
    async with control_plane() as second, planes_for(address, second.address, look=SOON) as planes:
        async with ads(planes) as call:
            await exchange(call, second)
            async with control_plane(address=address) as first:
                code, details = await end_of(call)
                assert code is grpc.StatusCode.OK
                assert details == f"the control plane at {address} is preferred"
                assert call.failure is None
                async with ads(planes) as again:
                    await exchange(again, first)
                    assert _healthy(planes) == [True, True]
    said = [(r.levelno, r.message) for r in caplog.records if "control plane is used" in r.message]
    assert said == [
        (logging.WARNING, "another control plane is used"),
        (logging.INFO, "a preferred control plane is used again"),
    ]


async def test_an_ordinary_end_is_followed_by_a_stream_to_the_same() -> None:
    async with control_plane() as first, control_plane() as second:
        async with planes_for(first.address, second.address) as planes:
            for _ in range(3):
                async with ads(planes) as call:
                    stream = await exchange(call, first)
                    stream.end(grpc.StatusCode.UNAVAILABLE, "max_age")
                    assert (await end_of(call))[1] == "max_age"
                await planes.wait_to_retry()
            assert _healthy(planes) == [True, None]


@pytest.mark.parametrize("code", list(grpc.StatusCode))
async def test_every_status_of_the_control_planes_ends_the_stream(code: grpc.StatusCode) -> None:
    """For one of them gRPC itself raises CancelledError, which is no cancellation of ours."""
    async with control_plane() as plane, planes_for(plane.address) as planes:
        async with ads(planes) as call:
            stream = await exchange(call, plane)
            stream.end(code, "" if code is grpc.StatusCode.OK else "its reason")
            assert (await end_of(call))[0] is code
            assert call.failure is None


async def test_where_all_are_dead_each_reason_is_given_and_one_that_returns_is_used(
    free_port: Callable[[], int],
) -> None:
    dead = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    async with planes_for(*dead) as planes:
        for _ in range(10):
            with pytest.raises(UpstreamError) as caught:
                async with ads(planes):
                    pass
            assert caught.value.reason == "connection refused"
            await planes.wait_to_retry()
        async with control_plane(address=dead[2]) as plane:
            async with patiently(planes) as call:  # it may not be due with the first
                await exchange(call, plane)


async def test_other_methods_go_to_the_healthy_one_and_need_no_answer(
    free_port: Callable[[], int],
) -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with control_plane() as plane:
        async with planes_for(dead, plane.address, answer_timeout_s=0.01) as planes:
            path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
            async with planes.call_method(path) as call:
                assert call.address == plane.address
                await call.write(b"report")
                stream = await plane.accept()
                assert await stream.receive() == b"report"
                await stream.send(b"answer")
                assert await call.read() == b"answer"


async def test_envoy_is_served_by_the_second(
    start_relay: RelayStarter, free_port: Callable[[], int]
) -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with control_plane() as plane:
        further = (FurtherAddress(plane.address),)
        async with start_relay(dead, further_addresses=further) as running:
            async with envoy_stream(running.socket_path) as envoy:
                await envoy.send(Messages.request(Messages.cluster))
                stream = await plane.accept()
                await stream.send(
                    Messages.response(Messages.cluster, version="v", nonce="n", bodies=())
                )
                assert await envoy.receive() is not None
                status = running.relay.status
                assert status.connected
                assert [each.streams for each in status.control_planes] == [0, 1]
