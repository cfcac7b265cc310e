"""gRPC's own xDS client, which speaks state of the world, under a control plane of delta alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grpc_clients import ALL_ACCEPTED, GrpcClient, answering, grpc_client, program_at
from mesh_testkit import until
from relays import RelayStarter, RunningRelay
from xds_planes import DELTA_METHOD, snapshot_plane


async def _until_served_by(word: str, client: GrpcClient, running: RunningRelay) -> None:
    async def served() -> bool:
        return await client.ask() == word

    await until(served, what=f"an answer of {word}", seen=lambda: running.relay.status)


@pytest.mark.slow
async def test_calls_follow_a_control_plane_of_delta_alone_and_its_successor(
    start_relay: RelayStarter, free_port: Callable[[], int]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with (
        answering(b"one") as one,
        answering(b"two") as two,
        answering(b"three") as three,
        start_relay(address) as running,
        grpc_client(running.socket_path) as client,
    ):
        async with snapshot_plane(DELTA_METHOD, address=address) as plane:
            plane.set(program_at(one))
            assert await client.ask() == "one"
            plane.set(program_at(two))
            await _until_served_by("two", client, running)
            assert await client.states() == ALL_ACCEPTED
        await running.until(lambda relay: not relay.status.connected, what="the outage")
        assert await client.ask() == "two"
        async with snapshot_plane(DELTA_METHOD, address=address) as plane:
            # Another cluster: the route has to change as well, and the old endpoints go.
            plane.set(program_at(three, cluster="another"))
            await _until_served_by("three", client, running)
            plane.set(program_at(one, cluster="another"))
            await _until_served_by("one", client, running)
            assert await client.states() == ALL_ACCEPTED
        assert running.relay.counters.envoy_ended == 0
        assert running.relay.counters.refused == 0
