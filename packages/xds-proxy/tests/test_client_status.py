"""CSDS on Envoy's socket: what each Envoy has and refused, asked by a generated client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio
import pytest
from envoy.admin.v3.config_dump_shared_pb2 import ClientResourceStatus
from envoy.service.status.v3 import csds_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import bytes_field
from mesh_testkit import PATIENCE_S
from mesh_testkit.http2 import connected
from relays import Messages, RelayStarter, RunningRelay
from xds_proxy import Held, RefusedResource, TypeStatus, WireError
from xds_proxy.services._status_messages import UnknownMatcher, read_request, write_response
from xds_proxy.testing import ControlPlaneStream, EnvoyStream, control_plane, envoy_stream

SERVICE = "/envoy.service.status.v3.ClientStatusDiscoveryService/"
NODE = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@asynccontextmanager
async def channel_to(path: Path) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
        yield channel


def fetching(
    channel: grpc.aio.Channel,
) -> grpc.aio.UnaryUnaryMultiCallable[csds_pb2.ClientStatusRequest, csds_pb2.ClientStatusResponse]:
    return channel.unary_unary(
        f"{SERVICE}FetchClientStatus",
        csds_pb2.ClientStatusRequest.SerializeToString,
        csds_pb2.ClientStatusResponse.FromString,
    )


def named(name: str) -> bytes:
    return bytes_field(1, name.encode())


async def answered(
    upstream: ControlPlaneStream, envoy: EnvoyStream, response: bytes, request: bytes
) -> None:
    await upstream.send(response)
    assert await envoy.receive() == response
    await envoy.send(request)
    await upstream.receive()


async def status_of(
    running: RunningRelay, channel: grpc.aio.Channel
) -> Mapping[str, csds_pb2.ClientConfig.GenericXdsConfig]:
    response = await fetching(channel)(csds_pb2.ClientStatusRequest())
    (config,) = response.config
    assert config.node.id == NODE
    assert running.relay.status.streams == 1
    return {each.name: each for each in config.generic_xds_configs}


async def test_what_envoy_has_is_reported_with_version_and_time(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        upstream = await plane.accept()
        await upstream.receive()
        bodies = (named("a"), named("b"))
        await answered(
            upstream,
            envoy,
            Messages.response(Messages.cluster, version="7", nonce="n", bodies=bodies),
            Messages.request(Messages.cluster, version="7", nonce="n"),
        )
        found = await status_of(running, channel)
        assert found.keys() == {"a", "b"}
        for each in found.values():
            assert (each.type_url, each.version_info) == (Messages.cluster, "7")
            assert each.client_status == ClientResourceStatus.ACKED
            assert each.config_status == csds_pb2.ConfigStatus.SYNCED
            assert each.last_updated.seconds > 1_700_000_000


async def test_what_envoy_refused_is_reported_with_the_reason(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        upstream = await plane.accept()
        await upstream.receive()
        await answered(
            upstream,
            envoy,
            Messages.response(Messages.cluster, version="7", nonce="1", bodies=(named("a"),)),
            Messages.request(Messages.cluster, version="7", nonce="1"),
        )
        error = "Error adding/updating cluster(s) a: no such field"
        await answered(
            upstream,
            envoy,
            Messages.response(Messages.cluster, version="8", nonce="2", bodies=(named("a"),)),
            Messages.request(Messages.cluster, version="7", nonce="2", error=error),
        )
        refused = (await status_of(running, channel))["a"]
        assert refused.client_status == ClientResourceStatus.NACKED
        assert refused.config_status == csds_pb2.ConfigStatus.ERROR
        assert refused.version_info == "7"
        assert refused.error_state.version_info == "8"
        assert "no such field" in refused.error_state.details
        assert refused.error_state.last_update_attempt.seconds > 1_700_000_000


async def test_a_stream_is_answered_for_each_request_and_at_that_moment(
    start_relay: RelayStarter,
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
    ):
        method: grpc.aio.StreamStreamMultiCallable[
            csds_pb2.ClientStatusRequest, csds_pb2.ClientStatusResponse
        ] = channel.stream_stream(
            f"{SERVICE}StreamClientStatus",
            csds_pb2.ClientStatusRequest.SerializeToString,
            csds_pb2.ClientStatusResponse.FromString,
        )
        call = method(None)
        await call.write(csds_pb2.ClientStatusRequest())
        first = await call.read()
        assert isinstance(first, csds_pb2.ClientStatusResponse)
        assert not first.config
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            await (await plane.accept()).receive()
            await call.write(csds_pb2.ClientStatusRequest())
            second = await call.read()
            assert isinstance(second, csds_pb2.ClientStatusResponse)
            assert [config.node.id for config in second.config] == [NODE]
        call.cancel()


async def test_a_request_that_cannot_be_served_says_why(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address) as running,
        channel_to(running.socket_path) as channel,
    ):
        by_metadata = csds_pb2.ClientStatusRequest()
        by_metadata.node_matchers.add().node_metadatas.add()
        call = fetching(channel)(by_metadata)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "by its metadata" in (await call.details() or "")
        large = csds_pb2.ClientStatusRequest()
        large.node.id = "x" * 100_000
        call = fetching(channel)(large)
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert running.relay.counters.passed_calls == 0


async def test_a_caller_that_does_not_read_loses_its_connection(start_relay: RelayStarter) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        control_plane() as plane,
        start_relay(plane.address, send_timeout_s=2.0) as running,
        envoy_stream(running.socket_path) as envoy,
        connected(f"unix:{running.socket_path}", window=0) as deaf,
    ):
        await envoy.send(Messages.request(Messages.cluster))
        await (await plane.accept()).receive()
        await deaf.open(f"{SERVICE}StreamClientStatus", b"")
        await deaf.closed.wait()
        assert running.relay.status.streams == 1


class Client(NamedTuple):
    """An Envoy as the messages see it."""

    node: bytes
    process: int | None
    resources: Mapping[str, Mapping[str, Held]]
    types: Mapping[str, TypeStatus]
    requested: Mapping[str, frozenset[str]]


_names = st.text(min_size=1, max_size=10)
_times = st.floats(min_value=0, max_value=4e9)


@given(
    st.dictionaries(_names, st.tuples(_names, _times), max_size=5),
    st.dictionaries(_names, st.tuples(_names, _names), max_size=5),
    st.frozensets(_names, max_size=5),
)
def test_protobuf_reads_what_is_written(
    held: dict[str, tuple[str, float]],
    refused: dict[str, tuple[str, str]],
    requested: frozenset[str],
) -> None:
    status = TypeStatus(
        version="2",
        acked=True,
        nack=None,
        in_use="1",
        at=NOW,
        refused=tuple(
            RefusedResource(name, version, reason, NOW)
            for name, (version, reason) in refused.items()
        ),
    )
    client = Client(
        node=bytes_field(1, NODE.encode()),
        process=4711,
        resources={"t": {name: Held(version, at) for name, (version, at) in held.items()}},
        types={"t": status},
        requested={"t": requested},
    )
    read = csds_pb2.ClientStatusResponse.FromString(write_response([client]))
    (config,) = read.config
    assert (config.node.id, config.client_scope) == (NODE, "process 4711")
    found = {each.name: each for each in config.generic_xds_configs}
    assert len(found) == len(config.generic_xds_configs)
    assert found.keys() == held.keys() | refused.keys() | (requested - {"*"})
    for name, (version, at) in held.items():
        assert found[name].version_info == version
        assert abs(found[name].last_updated.ToNanoseconds() / 1e9 - at) < 1e-3
    for name, (version, reason) in refused.items():
        assert found[name].client_status == ClientResourceStatus.NACKED
        state = found[name].error_state
        assert (state.version_info, state.details) == (version, reason)
    for name in requested - held.keys() - refused.keys() - {"*"}:
        assert found[name].client_status == ClientResourceStatus.REQUESTED
        assert found[name].config_status == csds_pb2.ConfigStatus.NOT_SENT


@pytest.mark.parametrize(
    ("matcher", "matches"),
    [
        ({"exact": NODE}, True),
        ({"exact": NODE.upper()}, False),
        ({"exact": NODE.upper(), "ignore_case": True}, True),
        ({"prefix": "sidecar~"}, True),
        ({"suffix": "cluster.local"}, True),
        ({"contains": "web.default"}, True),
        ({"contains": "other"}, False),
    ],
)
def test_clients_are_selected_by_node_id(*, matcher: dict[str, object], matches: bool) -> None:
    request = csds_pb2.ClientStatusRequest()
    for name, value in matcher.items():
        setattr(
            request.node_matchers.add().node_id
            if not request.node_matchers
            else request.node_matchers[0].node_id,
            name,
            value,
        )
    client = Client(bytes_field(1, NODE.encode()), None, {}, {}, {})
    assert read_request(request.SerializeToString())(client) is matches


def test_a_regular_expression_is_refused_and_no_matcher_means_all() -> None:
    request = csds_pb2.ClientStatusRequest()
    client = Client(b"", None, {}, {}, {})
    assert read_request(request.SerializeToString())(client)
    request.node_matchers.add().node_id.safe_regex.regex = ".*"
    with pytest.raises(UnknownMatcher, match="exact, prefix"):
        read_request(request.SerializeToString())


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_request(data)
    except (WireError, UnknownMatcher):
        return
