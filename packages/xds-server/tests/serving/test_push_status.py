"""Why a client was pushed to: in the responses, in the status of the client, and in the log."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from xds_server import (
    Client,
    ClientStatus,
    ConfigKey,
    NullObserver,
    PlainListener,
    PushRequest,
    PushStatus,
    Resource,
    Response,
    ServerConfig,
    TypePush,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import (
    ADS_DELTA,
    ADS_SOTW,
    DeltaClient,
    Reply,
    SotwClient,
    admit_all,
    over_grpc,
)
from xds_state import Make, State

WEB = frozenset({ConfigKey("Service", "web", "shop")})


def identifier(reply: Reply, *, delta: bool) -> str:
    if delta:
        return discovery_pb2.DeltaDiscoveryResponse.FromString(reply.data).control_plane.identifier
    return discovery_pb2.DiscoveryResponse.FromString(reply.data).control_plane.identifier


def in_json(push: PushRequest | None) -> str:
    reasons = None if push is None else push.described_reasons()
    return json.dumps({"Component": "test", "Reasons": reasons})


def new_server(state: State, **options: Any) -> XdsServer[None]:
    server: XdsServer[None] = XdsServer(
        dict.fromkeys((types.CLUSTER, types.ENDPOINT, types.LISTENER), state),
        admit=admit_all,
        **options,
    )
    server.set_ready()
    return server


async def pushed_status(server: XdsServer[None], *, reason: str) -> ClientStatus:
    """Return the status of the only client when a push for this reason has been sent."""
    while True:
        (status,) = server.clients()
        if status.last_push is not None and status.last_push.reasons == (reason,):
            return status
        await asyncio.sleep(0)


@pytest.mark.parametrize("delta", [False, True])
async def test_responses_of_a_push_name_its_reasons_and_answers_none(
    state: State, make: Make, *, delta: bool
) -> None:
    state.set(make.cluster("a"))
    server = new_server(state, config=ServerConfig(control_plane=in_json))
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(serving(server, [PlainListener()]))
        path = ADS_DELTA if delta else ADS_SOTW
        wire = await stack.enter_async_context(over_grpc(bound.addresses[0], path=path))
        client = DeltaClient(wire) if delta else SotwClient(wire)
        await client.subscribe(types.CLUSTER)
        answer = json.loads(identifier(await client.next(), delta=delta))
        assert answer == {"Component": "test", "Reasons": None}
        state.set(make.cluster("a", change=1))
        server.push_now(PushRequest(configs_updated=WEB))
        pushed = json.loads(identifier(await client.next(), delta=delta))
        assert pushed["Reasons"] == ["Service/shop/web"]


async def test_the_last_push_is_reported_with_its_reasons_and_numbers(
    state: State, make: Make
) -> None:
    state.set(make.cluster("a"), make.cluster("b"), make.cluster("c"))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0], path=ADS_DELTA) as wire:
            client = DeltaClient(wire)
            await client.subscribe(types.CLUSTER)
            await client.next()
            (status,) = server.clients()
            assert status.last_push is None
            state.set(make.cluster("b", change=1))
            server.push_now(PushRequest(configs_updated=WEB))
            await client.next()
            push = (await pushed_status(server, reason="Service/shop/web")).last_push
            assert push is not None
            assert push.types == {types.CLUSTER: TypePush(sent=1, removed=0, unchanged=2)}
            assert datetime.now(tz=UTC) - push.at < timedelta(minutes=1)
            server.push_now(PushRequest(triggers=("global",)))
            push = (await pushed_status(server, reason="global")).last_push
            assert push is not None
            assert push.types == {types.CLUSTER: TypePush(sent=0, removed=0, unchanged=3)}


async def test_a_client_is_behind_until_all_of_a_change_is_sent(state: State, make: Make) -> None:
    state.set(make.cluster("a"))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0], path=ADS_DELTA) as wire:
            client = DeltaClient(wire)
            await client.subscribe(types.CLUSTER)
            await client.next()
            (status,) = server.clients()
            assert not status.behind
            state.set(make.cluster("a", change=1))
            server.notify(PushRequest(configs_updated=WEB))
            (gathered,) = server.clients()
            assert gathered.behind
            await client.next()
            status = await pushed_status(server, reason="Service/shop/web")
            assert not status.behind
            server.push_now(PushRequest(triggers=("global",)))
            (queued,) = server.clients()
            assert queued.behind
            assert not (await pushed_status(server, reason="global")).behind


async def test_what_a_push_takes_away_is_counted(state: State, make: Make) -> None:
    state.set(make.listener("a"), make.listener("b"))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0], path=ADS_DELTA) as wire:
            client = DeltaClient(wire)
            await client.subscribe(types.LISTENER)
            await client.next()
            state.drop(types.LISTENER, "a")
            server.push_now(PushRequest(reasons=("a was deleted",)))
            assert (await client.next()).removed == {"a"}
            push = (await pushed_status(server, reason="a was deleted")).last_push
            assert isinstance(push, PushStatus)
            assert push.types == {types.LISTENER: TypePush(sent=0, removed=1, unchanged=1)}


class Watcher(NullObserver):
    """Keeps the responses that it is notified of."""

    def __init__(self) -> None:
        self.responses: list[Response] = []

    def on_response(self, _client: Client[object], response: Response, /) -> None:
        """Keep one."""
        self.responses.append(response)


@pytest.mark.parametrize("delta", [False, True])
async def test_observers_see_the_resources_of_each_response(
    state: State, make: Make, *, delta: bool
) -> None:
    a: Resource = make.endpoints("a")
    state.set(a)
    watcher = Watcher()
    server = new_server(state, observer=watcher)
    async with serving(server, [PlainListener()]) as bound:
        path = ADS_DELTA if delta else ADS_SOTW
        async with over_grpc(bound.addresses[0], path=path) as wire:
            client = DeltaClient(wire) if delta else SotwClient(wire)
            await client.subscribe(types.ENDPOINT, "a", "b")
            reply = await client.next()
            (response,) = watcher.responses
            assert response.resources == {"a": a}
            assert response.resources["a"] is a
            assert response.removed == (frozenset({"b"}) if delta else frozenset())
            assert (response.nonce, response.version) == (reply.nonce, reply.version)


async def test_the_control_plane_is_named_once_a_push_for_all_clients(
    state: State, make: Make
) -> None:
    named: list[PushRequest | None] = []

    def name(push: PushRequest | None) -> str:
        named.append(push)
        return "here"

    state.set(make.cluster("a"))
    server = new_server(state, config=ServerConfig(control_plane=name))
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(serving(server, [PlainListener()]))
        clients = []
        for _ in range(3):
            wire = await stack.enter_async_context(over_grpc(bound.addresses[0]))
            clients.append(SotwClient(wire))
            await clients[-1].subscribe(types.CLUSTER)
            await clients[-1].next()
        push = PushRequest(configs_updated=WEB)
        state.set(make.cluster("a", change=1))
        server.push_now(push)
        for client in clients:
            assert identifier(await client.next(), delta=False) == "here"
    assert named == [None, push]


async def test_a_control_plane_that_cannot_be_named_is_the_plain_identifier(
    state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_push: PushRequest | None) -> str:
        raise RuntimeError("no host name")

    state.set(make.cluster("a"))
    server = new_server(state, config=ServerConfig(control_plane=fail, identifier="plain"))
    async with serving(server, [PlainListener()]) as bound:
        async with over_grpc(bound.addresses[0]) as wire:
            client = SotwClient(wire)
            await client.subscribe(types.CLUSTER)
            assert identifier(await client.next(), delta=False) == "plain"
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "naming the control plane failed" in record.message


async def test_the_log_counts_the_clients_that_were_queued(
    state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="xds_server")
    state.set(make.cluster("a"))
    server = new_server(
        state,
        config=ServerConfig(debounce_quiet_s=0.01),
        needs_push=lambda client, _push: client.node.id == "concerned",
    )
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(serving(server, [PlainListener()]))
        clients = {}
        for node_id in ("concerned", "other", "another"):
            wire = await stack.enter_async_context(over_grpc(bound.addresses[0]))
            clients[node_id] = SotwClient(wire, node_id=node_id)
            await clients[node_id].subscribe(types.CLUSTER)
            await clients[node_id].next()
        state.set(make.cluster("a", change=1))
        server.notify(PushRequest(configs_updated=WEB))
        await clients["concerned"].next()
        (record,) = [r for r in caplog.records if r.message == "pushing changes"]
        assert (record.__dict__["clients"], record.__dict__["reasons"]) == (
            1,
            ("Service/shop/web",),
        )
