"""A control plane's refusal is known though writes fail as the stream ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import grpc.aio
import pytest

from relays import Messages
from upstream_planes import ads, end_of, planes_for
from xds_proxy.testing import control_plane
from xds_proxy.upstream._call import ControlPlaneCall

_STREAMS, _REQUESTS = 40, 20


async def _write(call: ControlPlaneCall) -> None:
    """Send requests one after the other, as at the beginning of a stream that replays them."""
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        for _ in range(_REQUESTS):
            await call.write(Messages.request(Messages.cluster))


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED]
)
async def test_a_refused_stream_has_the_control_planes_status(code: grpc.StatusCode) -> None:
    async with control_plane() as plane, planes_for(plane.address) as planes:
        plane.refusal = code, "you may not"
        for _ in range(_STREAMS):
            async with ads(planes) as call:
                (status, details), _ = await asyncio.gather(end_of(call), _write(call))
            assert (status, details) == (code, "you may not")


async def test_a_method_that_is_not_served_is_known_as_such_at_once() -> None:
    for _ in range(_STREAMS):
        async with (
            control_plane(methods=["DeltaAggregatedResources"]) as plane,
            planes_for(plane.address) as planes,
            ads(planes) as call,
        ):
            (status, details), _ = await asyncio.gather(end_of(call), _write(call))
            assert status is grpc.StatusCode.OK
            assert "does not serve" in details


async def test_a_status_of_internal_is_the_control_planes_if_it_says_so() -> None:
    async with control_plane() as plane, planes_for(plane.address) as planes, ads(planes) as call:
        await call.write(Messages.request(Messages.cluster))
        stream = await plane.accept()
        await stream.receive()
        stream.end(grpc.StatusCode.INTERNAL, "a fault")
        assert await end_of(call) == (grpc.StatusCode.INTERNAL, "a fault")
