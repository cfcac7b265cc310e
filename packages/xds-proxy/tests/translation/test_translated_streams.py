"""The relay between an Envoy of one dialect and a control plane of the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2

from relays import Messages, RelayStarter
from xds_planes import DELTA_METHOD, SOTW_METHOD
from xds_proxy.testing import (
    ControlPlane,
    ControlPlaneStream,
    EnvoyStream,
    control_plane,
    envoy_stream,
)

_CLUSTER = b"\x0a\x01a"
_CASES = pytest.mark.parametrize(
    ("method", "served"),
    [
        pytest.param(SOTW_METHOD, DELTA_METHOD, id="sotw Envoy"),
        pytest.param(DELTA_METHOD, SOTW_METHOD, id="delta Envoy"),
    ],
)


def _first(method: str) -> bytes:
    if method == SOTW_METHOD:
        return Messages.request(Messages.cluster)
    return Messages.delta_request(Messages.cluster)


def _response(served: str, *, nonce: str = "n1", body: bytes = _CLUSTER) -> bytes:
    make = Messages.response if served == SOTW_METHOD else Messages.delta_response
    return make(Messages.cluster, version="v1", nonce=nonce, bodies=(body,))


@asynccontextmanager
async def _streams(
    socket_path: Path, plane: ControlPlane, method: str
) -> AsyncIterator[tuple[EnvoyStream, ControlPlaneStream]]:
    """Yield a stream of Envoy's that asks for clusters, and the one above that it leads to.

    Envoy asks again when its stream ends.
    """
    arriving = asyncio.create_task(plane.accept())
    try:
        while True:
            async with envoy_stream(socket_path, method=method) as envoy:
                await envoy.send(_first(method))
                status = asyncio.create_task(envoy.status())
                await asyncio.wait([arriving, status], return_when=asyncio.FIRST_COMPLETED)
                status.cancel()
                if arriving.done():
                    yield envoy, arriving.result()
                    return
    finally:
        arriving.cancel()


@_CASES
async def test_a_stream_is_translated_if_the_control_plane_lacks_its_dialect(
    start_relay: RelayStarter, *, method: str, served: str
) -> None:
    async with (
        control_plane(methods=[served]) as plane,
        start_relay(plane.address) as running,
        _streams(running.socket_path, plane, method) as (envoy, upstream),
    ):
        assert upstream.method == served
        first = await upstream.receive()
        await upstream.send(_response(served))
        response = await envoy.receive()
        assert response is not None
        if method == SOTW_METHOD:
            assert Messages.read_delta_request(first).node.id.startswith("sidecar~")
            sotw = discovery_pb2.DiscoveryResponse.FromString(response)
            assert (sotw.nonce, sotw.version_info) == ("n1", "v1")
            assert sotw.control_plane.identifier == Messages.identifier
            await envoy.send(Messages.request(Messages.cluster, nonce="n1", error="not this"))
            delta_nack = Messages.read_delta_request(await upstream.receive())
            assert delta_nack.response_nonce == "n1"
            assert delta_nack.error_detail.message == "not this"
        else:
            assert Messages.read_request(first).node.id.startswith("sidecar~")
            delta = discovery_pb2.DeltaDiscoveryResponse.FromString(response)
            assert (delta.nonce, delta.system_version_info) == ("n1", "v1")
            assert delta.control_plane.identifier == Messages.identifier
            await envoy.send(Messages.delta_request(Messages.cluster, nonce="n1", error="no"))
            nack = Messages.read_request(await upstream.receive())
            assert (nack.response_nonce, nack.version_info) == ("n1", "")
            assert nack.error_detail.message == "no"
        status = running.relay.status
        assert status.types[Messages.cluster].nack
        assert status.connected


@_CASES
async def test_a_later_stream_is_translated_from_its_beginning(
    start_relay: RelayStarter, *, method: str, served: str
) -> None:
    async with control_plane(methods=[served]) as plane, start_relay(plane.address) as running:
        async with _streams(running.socket_path, plane, method):
            pass
        async with envoy_stream(running.socket_path, method=method) as envoy:
            await envoy.send(_first(method))
            upstream = await plane.accept()
            await upstream.send(_response(served))
            assert await envoy.receive() is not None


async def test_a_control_plane_that_serves_neither_dialect_is_reported(
    start_relay: RelayStarter,
) -> None:
    async def ask_again_and_again(socket_path: Path) -> None:
        while True:
            async with envoy_stream(socket_path, method=DELTA_METHOD) as envoy:
                await envoy.send(_first(DELTA_METHOD))
                await envoy.status()

    async with control_plane(methods=[]) as plane, start_relay(plane.address) as running:
        asking = asyncio.create_task(ask_again_and_again(running.socket_path))
        try:
            await running.until(
                lambda relay: (relay.status.last_error or "").startswith("it does not serve"),
                what="the reason",
            )
        finally:
            asking.cancel()
            await asyncio.wait([asking])


@_CASES
async def test_a_malformed_response_is_not_translated(
    start_relay: RelayStarter, *, method: str, served: str
) -> None:
    async with (
        control_plane(methods=[served]) as plane,
        start_relay(plane.address) as running,
        _streams(running.socket_path, plane, method) as (_, upstream),
    ):
        await upstream.receive()
        await upstream.send(b"\xff\xff")
        await upstream.closed.wait()
        assert running.socket_path.exists()


@_CASES
async def test_a_large_response_is_translated(
    start_relay: RelayStarter, *, method: str, served: str
) -> None:
    large = _CLUSTER + b"\xfa\x7f\x80\x80\x80\x05" + b"x" * (10 << 20)  # an unknown field
    async with (
        control_plane(methods=[served]) as plane,
        start_relay(plane.address) as running,
        _streams(running.socket_path, plane, method) as (envoy, upstream),
    ):
        await upstream.receive()
        await upstream.send(_response(served, body=large))
        response = await envoy.receive()
        assert response is not None
        assert large in response


async def test_what_envoy_would_have_to_get_is_too_large(start_relay: RelayStarter) -> None:
    async with (
        control_plane(methods=[DELTA_METHOD]) as plane,
        start_relay(plane.address, max_message_bytes=100_000) as running,
        _streams(running.socket_path, plane, SOTW_METHOD) as (envoy, upstream),
    ):
        await upstream.receive()
        for number in range(2):
            cluster = cluster_pb2.Cluster(name=str(number), alt_stat_name="x" * 60_000)
            message = discovery_pb2.DeltaDiscoveryResponse(
                type_url=Messages.cluster, nonce=str(number)
            )
            message.resources.add(name=str(number), version="v").resource.Pack(cluster)
            await upstream.send(message.SerializeToString())
            if number == 0:
                assert await envoy.receive() is not None
        await upstream.closed.wait()
        await running.until(
            lambda relay: (
                relay.counters.connection_failures + relay.counters.control_plane_failed > 0
            ),
            what="the end of the stream with an error",
        )
