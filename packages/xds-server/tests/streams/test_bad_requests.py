"""Requests that end their stream are counted each, and logged when a peer begins with them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.service.discovery.v3 import discovery_pb2
from prometheus_client import CollectorRegistry

from xds_server import PlainListener, ServerConfig, UnixListener, XdsServer, serving
from xds_server import type_urls as types
from xds_server.testing import ADS_DELTA, ADS_SOTW, StreamEnded, admit_all, over_grpc
from xds_state import Make, State

TIMES = 5
SMALL = ServerConfig(max_node_bytes=1000, max_request_bytes=100_000, max_subscribed_names=50)
COUNT = "xds_server_refused_requests"


def request(*, padding: int = 0) -> bytes:
    message: Any = discovery_pb2.DiscoveryRequest(type_url=types.CLUSTER)
    message.node.id = "n"
    message.node.metadata.fields["padding"].string_value = "x" * padding
    data: bytes = message.SerializeToString()
    return data


def names(first: int, last: int, *, nonce: str = "") -> bytes:
    message: Any = discovery_pb2.DeltaDiscoveryRequest(
        type_url=types.ENDPOINT,
        resource_names_subscribe=[f"name-{number}" for number in range(first, last)],
        response_nonce=nonce,
    )
    message.node.id = "n"
    data: bytes = message.SerializeToString()
    return data


async def end_of(address: str, *messages: bytes, path: str = ADS_SOTW) -> StreamEnded:
    """Send these; how the stream ends."""
    async with over_grpc(address, path=path) as wire:
        with pytest.raises(StreamEnded) as ended:
            for message in messages:
                await wire.send(message)
            while True:
                await wire.receive()
    return ended.value


def new_server(state: State, registry: CollectorRegistry) -> XdsServer[None]:
    server: XdsServer[None] = XdsServer(
        {types.CLUSTER: state, types.ENDPOINT: state},
        admit=admit_all,
        config=SMALL,
        registry=registry,
    )
    server.set_ready()
    return server


@pytest.mark.parametrize(
    ("padding", "said"),
    [(2000, "(max_node_bytes)"), (200_000, "100000 bytes (max_request_bytes)")],
    ids=["node", "message"],
)
@pytest.mark.parametrize("kind", ["TCP", "unix"])
async def test_a_first_request_that_is_too_large_is_logged_once_and_counted_each_time(
    state: State,
    socket_dir: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    kind: str,
    padding: int,
    said: str,
) -> None:
    registry = CollectorRegistry()
    listener = PlainListener() if kind == "TCP" else UnixListener(path=socket_dir / "x" / "socket")
    async with serving(new_server(state, registry), [listener]) as bound:
        with caplog.at_level(logging.WARNING):
            for _ in range(TIMES):
                ended = await end_of(bound.addresses[0], request(padding=padding))
                assert ended.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [record.message for record in caplog.records] == ["requests refused"]
    fields = vars(caplog.records[0])
    assert fields["reason"].endswith(said)
    assert fields["peer"].startswith("process " if kind == "unix" else "127.0.0.1")
    assert registry.get_sample_value(COUNT, {"code": "resource_exhausted"}) == TIMES


async def test_another_reason_is_logged_too(state: State, caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    async with serving(new_server(state, registry), [PlainListener()]) as bound:
        with caplog.at_level(logging.WARNING):
            for _ in range(TIMES):
                await end_of(bound.addresses[0], request(padding=2000))
                await end_of(bound.addresses[0], b"\xff")
    assert [vars(record)["code"] for record in caplog.records] == [
        "RESOURCE_EXHAUSTED",
        "INVALID_ARGUMENT",
    ]


async def test_the_names_of_a_delta_stream_are_bounded_however_few_are_in_each_request(
    state: State, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    async with serving(new_server(state, registry), [PlainListener()]) as bound:
        address = bound.addresses[0]
        async with over_grpc(address, path=ADS_DELTA) as wire:
            await wire.send(names(0, 30))
            await wire.send(names(10, 50))
            with caplog.at_level(logging.WARNING), pytest.raises(StreamEnded) as ended:
                await wire.send(names(49, 51))
                while True:
                    await wire.receive()
    assert ended.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert ended.value.message.startswith("51 names of")
    assert [record.message for record in caplog.records] == ["requests refused"]
    assert vars(caplog.records[0])["client"].rpartition("-")[0] == "n"


async def test_names_given_up_make_room_for_others(state: State, make: Make) -> None:
    state.set(*(make.endpoints(f"name-{number}") for number in range(200)))
    async with serving(new_server(state, CollectorRegistry()), [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0], path=ADS_DELTA) as wire:
            for start in range(0, 200, 40):
                change: Any = discovery_pb2.DeltaDiscoveryRequest.FromString(
                    names(start, start + 40)
                )
                change.resource_names_unsubscribe.extend(
                    f"name-{number}" for number in range(start - 40, start)
                )
                await wire.send(change.SerializeToString())
                answer = discovery_pb2.DeltaDiscoveryResponse.FromString(await wire.receive())
                assert len(answer.resources) == 40
