"""Resources with a TTL are heard of again before they expire, in delta without their bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from mesh_lifecycle.testing import ManualClock
from xds_server import ServerConfig, content_version
from xds_server import type_urls as types
from xds_server.testing import SotwClient, in_memory
from xds_state import Core, Make, NewCore, Running, State


def wrappers(reply: Any) -> list[Any]:
    """The resources of a response, out of their wrappers' wrappers in state of the world."""
    if hasattr(reply, "removed_resources"):
        return list(reply.resources)
    return [discovery_pb2.Resource.FromString(packed.value) for packed in reply.resources]


@pytest.fixture
def expiring(make: Make) -> Any:
    return replace(make.route("r"), ttl_s=10.0)


def subscribed(core: Core, type_url: str, *names: str) -> Any:
    if core._delta:
        (reply,) = core.delta(type_url, subscribe=names)
    else:
        (reply,) = core.request(type_url, *names)
    return reply


@pytest.mark.parametrize("is_delta", [False, True], ids=["sotw", "delta"])
def test_they_are_heard_of_at_half_the_ttl_and_again(
    new_core: NewCore, make: Make, expiring: Any, is_delta: Any
) -> None:
    core, state = new_core(delta=is_delta)
    state.set(expiring, make.route("stays"))
    first = subscribed(core, types.ROUTE, "r", "stays")
    core.ack(first, "r", "stays")
    for _ in range(3):
        core.now += 4.9
        assert core.go_on() == []
        core.now += 0.1
        (beat,) = core.go_on()
        (bare,) = wrappers(beat)
        assert (bare.name, bare.ttl.seconds) == ("r", 10)
        assert bare.HasField("resource") != is_delta
        assert bare.version == expiring.version
        assert core.ack(beat, "r", "stays") == []


@pytest.mark.parametrize("is_delta", [False, True], ids=["sotw", "delta"])
def test_it_waits_for_the_client_to_accept_the_last(
    new_core: NewCore, expiring: Any, is_delta: Any
) -> None:
    core, state = new_core(delta=is_delta)
    state.set(expiring)
    first = subscribed(core, types.ROUTE, "r")
    core.now += 6
    assert core.go_on() == []
    assert core.stream.next_due_at() is None
    (beat,) = core.ack(first, "r")
    assert wrappers(beat)[0].name == "r"


def test_all_there_is_is_said_in_full(sotw: Core, state: State, make: Make) -> None:
    state.set(replace(make.listener("short"), ttl_s=10.0), make.listener("stays"))
    sotw.ack(*sotw.request(types.LISTENER))
    sotw.now += 5
    (beat,) = sotw.go_on()
    short, stays = beat.resources
    assert discovery_pb2.Resource.FromString(short.value).HasField("resource")
    assert stays.type_url == types.LISTENER


def test_nothing_comes_for_what_is_gone(delta: Core, state: State, expiring: Any) -> None:
    state.set(expiring)
    delta.ack(*delta.delta(types.ROUTE, subscribe=["r"]))
    delta.delta(types.ROUTE, unsubscribe=["r"])
    delta.now += 5
    assert delta.go_on() == []
    assert delta.stream.next_due_at() is None


def test_a_client_that_comes_back_gets_it_whole(delta: Core, state: State, expiring: Any) -> None:
    state.set(expiring)
    delta.ack(*delta.delta(types.ROUTE, subscribe=["r"]))
    delta.reset()
    (resend,) = delta.delta(
        types.ROUTE, subscribe=["r"], initial_versions={"r": content_version(expiring.body)}
    )
    assert resend.resources[0].HasField("resource")


def test_another_ttl_is_a_change(delta: Core, state: State, expiring: Any) -> None:
    state.set(expiring)
    delta.ack(*delta.delta(types.ROUTE, subscribe=["r"]))
    state.set(replace(expiring, ttl_s=4.0))
    (reply,) = delta.push()
    assert reply.resources[0].ttl.seconds == 4


async def test_a_stream_wakes_for_it(
    running: Running, state: State, clock: ManualClock, expiring: Any
) -> None:
    state.set(expiring)
    async with running(config=ServerConfig(), clock=clock) as server, in_memory(server) as wire:
        client = SotwClient(wire, node_id="n")
        await client.subscribe(types.ROUTE, "r")
        await client.next()
        await clock.advance(0)
        await clock.advance(5)
        beat = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())
        assert wrappers(beat)[0].name == "r"
