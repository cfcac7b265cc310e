"""Requests are refused by their size before they are parsed, and before `admit` is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import grpc.aio
import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from xds_server import (
    Admission,
    ClientStatusHandler,
    Node,
    Peer,
    PlainListener,
    ServerConfig,
    XdsServer,
    answer_rest,
    serving,
)
from xds_server import type_urls as types
from xds_server._errors import StreamRefused
from xds_server.protocol._request import Parsed
from xds_server.streams import _stream_opener
from xds_server.streams._limits import check_size
from xds_server.testing import ADS_DELTA, ADS_SOTW, StreamEnded, over_grpc
from xds_server.transport import _fetch
from xds_state import Make, State

FETCH = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters"
STATUS = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus"
REQUESTS: dict[str, Any] = {
    ADS_SOTW: discovery_pb2.DiscoveryRequest,
    ADS_DELTA: discovery_pb2.DeltaDiscoveryRequest,
}
SMALL = ServerConfig(max_node_bytes=1000, max_request_bytes=100_000, max_subscribed_names=50)


def request(path: str, *, metadata_bytes: int) -> bytes:
    message: Any = REQUESTS[path](type_url=types.CLUSTER)
    message.node.id = "n"
    message.node.metadata.fields["padding"].string_value = "x" * metadata_bytes
    data: bytes = message.SerializeToString()
    return data


class Watched:
    """A server that notes who was admitted, and how many requests were parsed."""

    def __init__(self, state: State, config: ServerConfig = ServerConfig()) -> None:  # noqa: B008
        self.admitted: list[str] = []
        self.server: XdsServer[None] = XdsServer(
            {types.CLUSTER: state}, admit=self._admit, config=config
        )
        self.server.set_ready()

    async def _admit(self, node: Node, _peer: Peer) -> Admission[None]:
        self.admitted.append(node.id)
        return Admission(context=None)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were given to the parser, each time."""
    sizes: list[int] = []

    def noting(parse: Callable[..., Parsed]) -> Callable[..., Parsed]:
        def read(data: bytes, *, with_node: bool = True) -> Parsed:
            sizes.append(len(data))
            return parse(data, with_node=with_node)

        return read

    for module, name in (
        (_stream_opener, "parse_sotw"),
        (_stream_opener, "parse_delta"),
        (_fetch, "parse_sotw"),
    ):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    return sizes


async def how_it_ends(address: str, path: str, *messages: bytes) -> StreamEnded:
    async with over_grpc(address, path=path) as wire:
        for message in messages:
            await wire.send(message)
        with pytest.raises(StreamEnded) as ended:
            while True:
                await wire.receive()
    return ended.value


@pytest.mark.parametrize("path", [ADS_SOTW, ADS_DELTA])
async def test_a_node_of_20_mb_is_not_taken_in(state: State, parsed: list[int], path: str) -> None:
    watched = Watched(state)
    async with serving(watched.server, [PlainListener()]) as bound:
        ended = await how_it_ends(
            bound.addresses[0], path, request(path, metadata_bytes=20_000_000)
        )
    assert ended.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in ended.message
    assert (parsed, watched.admitted) == ([], [])


@pytest.mark.parametrize("path", [ADS_SOTW, ADS_DELTA])
async def test_a_node_over_its_limit_is_refused_before_it_is_parsed(
    state: State, parsed: list[int], path: str
) -> None:
    watched = Watched(state)
    async with serving(watched.server, [PlainListener()]) as bound:
        ended = await how_it_ends(bound.addresses[0], path, request(path, metadata_bytes=2_000_000))
    assert ended.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert ended.message.startswith("node of 2000")
    assert ended.message.endswith("at most 1048576 are taken (max_node_bytes)")
    assert (parsed, watched.admitted) == ([], [])


@pytest.mark.parametrize("path", [ADS_SOTW, ADS_DELTA])
async def test_later_requests_have_the_same_limits(
    state: State, make: Make, parsed: list[int], path: str
) -> None:
    state.set(make.cluster("a"))
    watched = Watched(state, SMALL)
    async with serving(watched.server, [PlainListener()]) as bound:
        first = request(path, metadata_bytes=10)
        ended = await how_it_ends(
            bound.addresses[0], path, first, request(path, metadata_bytes=2000)
        )
    assert ended.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "max_node_bytes" in ended.message
    assert (parsed, watched.admitted) == ([len(first)], ["n"])


async def test_asking_once_has_the_same_limits(state: State, parsed: list[int]) -> None:
    watched = Watched(state, SMALL)
    handlers = [ClientStatusHandler(watched.server)]
    large = request(ADS_SOTW, metadata_bytes=2000)
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(
            serving(watched.server, [PlainListener()], extra_handlers=handlers)
        )
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(bound.addresses[0]))
        for path, data in ((FETCH, large), (STATUS, b"x" * 200_000)):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(path, None, None)(data)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    answer = await answer_rest(
        watched.server, "/v3/discovery:clusters", b" " * 200_000, Peer(address="somewhere")
    )
    assert answer.status == 413
    assert (parsed, watched.admitted) == ([], [])


async def test_a_status_request_over_its_limit_is_refused(state: State) -> None:
    watched = Watched(state)
    handlers = [ClientStatusHandler(watched.server)]
    async with (
        serving(watched.server, [PlainListener()], extra_handlers=handlers) as bound,
        grpc.aio.insecure_channel(bound.addresses[0]) as channel,
    ):
        for data, code in (
            (b"\x0a" * 2_000_000, grpc.StatusCode.RESOURCE_EXHAUSTED),
            (b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(STATUS, None, None)(data)
            assert caught.value.code() is code


async def test_headers_have_a_limit_of_their_own(state: State) -> None:
    watched = Watched(state)
    async with serving(watched.server, [PlainListener()]) as bound:
        for size, fits in ((30_000, True), (200_000, False)):
            async with over_grpc(bound.addresses[0], metadata=[("token", "x" * size)]) as wire:
                try:
                    await wire.send(request(ADS_SOTW, metadata_bytes=10))
                    await wire.receive()
                except (StreamEnded, grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    assert not fits
    assert watched.admitted == ["n"]


@pytest.mark.parametrize("path", [ADS_SOTW, ADS_DELTA])
def test_a_node_in_pieces_counts_as_a_whole(path: str) -> None:
    pieces = request(path, metadata_bytes=400) * 3
    with pytest.raises(StreamRefused, match="max_node_bytes"):
        check_size(pieces, delta=path == ADS_DELTA, config=SMALL)


@pytest.mark.parametrize("path", [ADS_SOTW, ADS_DELTA])
def test_many_names_are_no_large_node_but_they_are_counted(path: str) -> None:
    delta = path == ADS_DELTA
    field = "resource_names_subscribe" if delta else "resource_names"
    names = [f"{n:040}" for n in range(100)]
    data = REQUESTS[path](**{field: names}).SerializeToString()
    assert len(data) > SMALL.max_node_bytes
    check_size(data, delta=delta, config=SMALL)
    with pytest.raises(StreamRefused, match="fields") as refused:
        check_size(b"\x1a\x00" * 2000, delta=delta, config=SMALL)
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


@given(data=st.binary(min_size=1001, max_size=1500), delta=st.booleans())
def test_whatever_the_bytes_either_they_are_refused_or_the_node_is_small(
    data: bytes, *, delta: bool
) -> None:
    path = ADS_DELTA if delta else ADS_SOTW
    try:
        check_size(data, delta=delta, config=SMALL)
    except StreamRefused:
        return
    try:
        message = REQUESTS[path].FromString(data)
    except Exception:  # noqa: BLE001  no request, as the parser finds
        return
    assert message.node.ByteSize() <= SMALL.max_node_bytes
