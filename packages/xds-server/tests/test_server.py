"""The server in memory: streams, pushes and what one client does to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from envoy.service.discovery.v3 import discovery_pb2
from prometheus_client import CollectorRegistry

from mesh_lifecycle.testing import ManualClock
from xds_server import (
    Admission,
    Client,
    ConfigKey,
    Node,
    NullObserver,
    Peer,
    PushRequest,
    Refused,
    Resource,
    ServerConfig,
    XdsServer,
)
from xds_server import type_urls as types
from xds_server.testing import DeltaClient, MemoryWire, SotwClient, StreamEnded, in_memory
from xds_state import Make, Running, Settle, State

CDS, EDS, LDS, RDS = types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE
SECRET = types.SECRET
UNKNOWN = "type.googleapis.com/what.is.This"


def secret(name: str) -> Resource:
    return Resource.pack(secret_pb2.Secret(name=name), name=name)


@asynccontextmanager
async def connected(server: Any, **options: Any) -> AsyncIterator[SotwClient]:
    async with in_memory(server) as wire:
        yield SotwClient(wire, **options)


async def ends_with(wire: Any) -> StreamEnded:
    with pytest.raises(StreamEnded) as ended:
        await wire.receive()
    return ended.value


async def test_a_first_request_without_a_node_is_an_invalid_argument(running: Running) -> None:
    async with running() as server, in_memory(server) as wire:
        await wire.send(discovery_pb2.DiscoveryRequest(type_url=CDS).SerializeToString())
        server.push_now(PushRequest())
        ended = await ends_with(wire)
    assert ended.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "missing node information" in ended.message


@pytest.mark.parametrize("delta", [False, True])
async def test_bytes_that_are_no_request_end_their_stream_only(
    running: Running, state: State, make: Make, *, delta: bool
) -> None:
    state.set(make.cluster("a"))
    async with running() as server, connected(server) as other:
        await other.subscribe(CDS)
        await other.next()
        for garbage in (b"\xff\xff\xff", b"\x0a\x03\xc3\x28\x28"):  # no message; invalid UTF-8
            async with in_memory(server, delta=delta) as wire:
                await wire.send(garbage)
                assert (await ends_with(wire)).code is grpc.StatusCode.INVALID_ARGUMENT
        state.set(make.cluster("a", change=1))
        server.push_now(PushRequest())
        assert set((await other.next()).resources) == {"a"}
        assert len(server.clients()) == 1


async def test_an_empty_type_url_is_an_invalid_argument(running: Running) -> None:
    async with running() as server, connected(server) as client:
        await client.subscribe("")
        assert (await ends_with(client)).code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_client_that_asks_for_a_type_that_is_not_served_is_sent_that_there_is_nothing(
    running: Running, state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    state.set(make.cluster("a"))
    registry = CollectorRegistry()
    async with running(registry=registry) as server:
        async with connected(server) as client:
            await client.subscribe(UNKNOWN)
            answer = await client.next()
            assert (answer.type_url, dict(answer.resources)) == (UNKNOWN, {})
            await client.subscribe(CDS)
            assert (await client.next()).type_url == CDS
        async with in_memory(server, delta=True) as wire:
            delta = DeltaClient(wire)
            await delta.subscribe(UNKNOWN)
            assert (await delta.next()).type_url == UNKNOWN
            await delta.subscribe(f"{UNKNOWN}.Named", "x")
            gone = await delta.next()
            assert (gone.type_url, set(gone.removed)) == (f"{UNKNOWN}.Named", {"x"})

    records = [each for each in caplog.records if each.getMessage().startswith("type not served")]
    assert [each.type_url for each in records] == [UNKNOWN, f"{UNKNOWN}.Named"]  # type: ignore[attr-defined]
    assert registry.get_sample_value("xds_server_unserved_requests", {"type": UNKNOWN}) == 2


async def test_a_named_resource_of_a_type_that_is_not_served_has_no_answer_in_state_of_the_world(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    async with running() as server, connected(server) as client:
        await client.subscribe(UNKNOWN, "x")
        await client.subscribe(CDS)
        assert (await client.next()).type_url == CDS


async def test_reports_and_ever_more_unknown_types_are_not_answered(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    config = ServerConfig(reported_types=frozenset({UNKNOWN}))
    async with running(config=config) as server, connected(server) as client:
        await client.subscribe(UNKNOWN)
        answered = []
        for number in range(40):
            await client.subscribe(f"{UNKNOWN}{number}")
        await client.subscribe(CDS)
        while (answer := await client.next()).type_url != CDS:
            answered.append(answer.type_url)
        assert answered == [f"{UNKNOWN}{number}" for number in range(16)]
        (status,) = server.clients()
        assert len(status.types) == 17


async def test_too_many_names_are_an_invalid_argument(running: Running) -> None:
    async with running(config=ServerConfig(max_subscribed_names=2)) as server:
        async with connected(server) as client:
            await client.subscribe(EDS, "a", "b", "c")
            assert (await ends_with(client)).code is grpc.StatusCode.INVALID_ARGUMENT


async def test_before_it_is_ready_streams_are_unavailable(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    async with running(ready=False) as server:
        async with connected(server) as client:
            await client.subscribe(CDS)
            assert (await ends_with(client)).code is grpc.StatusCode.UNAVAILABLE
        server.set_ready()
        async with connected(server) as client:
            await client.subscribe(CDS)
            assert set((await client.next()).resources) == {"a"}


async def test_a_service_of_one_type_fills_it_in_and_refuses_others(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    async with running() as server, in_memory(server, type_url=CDS) as wire:
        client = SotwClient(wire)
        await client.subscribe("")
        assert (await client.next()).type_url == CDS
        await client.subscribe(LDS)
        assert (await ends_with(client)).code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_change_reaches_everybody_it_is_for(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))

    def needs_push(client: Client[None], _request: PushRequest) -> bool:
        return client.node.id != "uninterested"

    async with running(needs_push=needs_push) as server:
        async with connected(server, node_id="x") as x, connected(server, node_id="y") as y:
            async with connected(server, node_id="uninterested") as other:
                for client in (x, y, other):
                    await client.subscribe(CDS)
                    await client.next()
                state.set(make.cluster("b"))
                server.notify(PushRequest())
                assert set((await x.next()).resources) == {"a", "b"}
                assert set((await y.next()).resources) == {"a", "b"}
                await other.subscribe(LDS)
                assert (await other.next()).type_url == LDS


async def test_build_runs_once_for_many_changes_and_before_they_are_sent(
    running: Running, state: State, make: Make
) -> None:
    built: list[frozenset[ConfigKey]] = []

    def build(request: PushRequest) -> None:
        built.append(request.configs_updated)
        state.set(make.cluster(f"built-{len(built)}"))

    async with running(build=build) as server, connected(server) as client:
        await client.subscribe(CDS)
        await client.next()
        keys = [ConfigKey("k", name, "ns") for name in "abc"]
        for key in keys:
            server.notify(PushRequest(configs_updated=frozenset({key})))
        assert set((await client.next()).resources) == {"built-1"}
    assert built == [frozenset(keys)]


async def test_a_failing_build_costs_one_push(
    running: Running, state: State, make: Make, clock: ManualClock
) -> None:
    builds = 0

    def build(_request: PushRequest) -> None:
        nonlocal builds
        builds += 1
        if builds == 1:
            raise ValueError("no good")

    registry = CollectorRegistry()
    async with (
        running(build=build, registry=registry, clock=clock) as server,
        connected(server) as client,
    ):
        await client.subscribe(CDS)
        await client.next()
        server.notify(PushRequest())
        await clock.advance(0.01)
        assert registry.get_sample_value("pilot_total_xds_internal_errors") == 1
        state.set(make.cluster("a"))
        server.notify(PushRequest())
        await clock.advance(0.01)
        assert set((await client.next()).resources) == {"a"}


async def test_a_failing_generator_costs_its_type_only(
    running: Running, state: State, make: Make
) -> None:
    class Broken:
        def generate(self, *_: object) -> None:
            raise ValueError("no good")

    state.set(make.cluster("a"))
    async with running(generators={CDS: state, LDS: Broken()}) as server:
        async with connected(server) as client:
            await client.subscribe(LDS)
            await client.subscribe(CDS)
            assert (await client.next()).type_url == CDS


async def test_two_streams_of_one_node_are_two_clients(
    running: Running, state: State, make: Make
) -> None:
    """Envoy's hot restart: the older one ends while the newer one goes on."""
    async with running() as server, connected(server, node_id="envoy") as newer:
        async with connected(server, node_id="envoy") as older:
            for client in (older, newer):
                await client.subscribe(CDS)
                await client.next()
            assert len({status.id for status in server.clients()}) == 2
        state.set(make.cluster("a"))
        server.push_now(PushRequest())
        assert set((await newer.next()).resources) == {"a"}
        assert len(server.clients()) == 1


class Dam:
    """A client's end that takes nothing until it is opened."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire
        self.open = asyncio.Event()
        self.written = 0

    async def write(self, data: bytes) -> None:
        await self.open.wait()
        self.written += 1
        await self.wire.responses.put(data)


async def test_a_slow_reader_holds_up_no_other_and_gets_the_newest_state(
    running: Running, state: State, make: Make
) -> None:
    config = ServerConfig(concurrent_pushes=1, slow_client_s=0.01, debounce_quiet_s=0.001)
    state.set(make.cluster("a"))
    async with running(config=config) as server, connected(server) as quick:
        async with in_memory(server) as never_used:
            await never_used.send_goodbye()
            await ends_with(never_used)
        await quick.subscribe(CDS)
        await quick.next()
        async with slow_stream(server) as (slow, dam):
            dam.open.set()
            await slow.subscribe(CDS)
            await slow.next()
            dam.open.clear()
            newest = b""
            for change in range(1, 30):
                state.set(make.cluster("a", change=change))
                server.push_now(PushRequest())
                newest = (await quick.next()).resources["a"]
            dam.open.set()
            while slow.resources(CDS)["a"] != newest:
                await slow.next()
            # What it was sent when it got stuck, and what was there when it got free.
            assert dam.written <= 3


@asynccontextmanager
async def slow_stream(server: Any) -> AsyncIterator[tuple[SotwClient, Dam]]:
    wire = MemoryWire()
    dam = Dam(wire)
    task = asyncio.create_task(
        server.serve_stream(Peer(address="slow"), wire.requests.get, dam.write, delta=False)
    )
    try:
        yield SotwClient(wire, node_id="slow"), dam
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("requested", "order"),
    [(SECRET, [CDS, SECRET, CDS]), (LDS, [CDS, CDS, LDS])],
    ids=["what refers to nothing", "what may refer to clusters of the push"],
)
async def test_requests_are_answered_before_a_waiting_push(
    running: Running, state: State, make: Make, settle: Settle, *, requested: str, order: list[str]
) -> None:
    """Unless the answer could refer to what only the push brings."""
    state.set(make.cluster("a"), make.listener("l"), secret("s"))
    async with running() as server, slow_stream(server) as (client, dam):
        dam.open.set()
        await client.subscribe(CDS)
        await client.next()
        dam.open.clear()
        state.set(make.cluster("a", change=1))
        server.push_now(PushRequest())
        await settle()  # until it is stuck at the dam
        state.set(make.cluster("a", change=2))
        server.push_now(PushRequest())
        await client.subscribe(requested, *(("s",) if requested == SECRET else ()))
        await settle()
        dam.open.set()
        replies = [(await client.next()).type_url for _ in range(3)]
    assert replies == order


async def test_new_streams_beyond_the_rate_wait_and_then_are_refused(
    running: Running, clock: ManualClock, settle: Settle
) -> None:
    config = ServerConfig(streams_per_second=1, stream_wait_s=1)
    async with running(config=config, clock=clock) as server, AsyncExitStack() as stack:
        clients = [SotwClient(await stack.enter_async_context(in_memory(server))) for _ in range(3)]
        for client in clients:
            await client.subscribe(CDS)
        await clients[0].next()
        assert (await ends_with(clients[2])).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await settle()
        await clock.advance(1)
        await clients[1].next()


async def test_more_types_than_the_read_ahead_do_not_deadlock(
    running: Running, state: State
) -> None:
    """Every type asked for at once, while pushes go on."""
    urls = [f"type.googleapis.com/test.Type{number}" for number in range(30)]
    async with running(generators=dict.fromkeys(urls, state)) as server:
        async with connected(server) as client:
            for url in urls:
                await client.subscribe(url)
                server.push_now(PushRequest())
            assert {(await client.next()).type_url for _ in urls} == set(urls)


async def test_tens_of_clients_come_and_go_while_endpoints_change(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.endpoints("a"))
    async with running() as server, connected(server) as steady:
        await steady.subscribe(EDS, "a")
        await steady.next()
        for change in range(1, 6):
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(connected(server)) for _ in range(20)]
                for client in clients:
                    await client.subscribe(EDS, "a")
                    await client.next()
                state.set(make.endpoints("a", change=change))
                server.push_now(PushRequest(incremental=True))
                expected = state.resources[EDS]["a"].body
                for client in clients:
                    assert (await client.next()).resources == {"a": expected}
            assert (await steady.next()).resources == {"a": expected}
        assert len(server.clients()) == 1


async def test_status_tells_what_was_sent_accepted_and_refused(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))

    async def admit(node: Node, _peer: Peer) -> Admission[str]:
        return Admission(identities=(f"spiffe://{node.id}",), context="x")

    async with running(admit=admit) as server, in_memory(server, delta=True) as wire:
        client = DeltaClient(wire, node_id="n", metadata={"LABELS": {"app": "web"}, "N": 1})
        await client.subscribe(CDS)
        accepted = await client.next()
        state.set(make.cluster("a", change=1))
        server.push_now(PushRequest())
        refused = await client.receive()
        await client.nack(refused, "no good")
        await client.subscribe(LDS)
        await client.next()
        (status,) = server.clients()
    assert status.identities == ("spiffe://n",)
    assert status.delta
    assert status.node.metadata == {"LABELS": {"app": "web"}, "N": 1.0}
    clusters = status.types[CDS]
    assert clusters.nonce_acked == accepted.nonce
    assert clusters.nonce_sent == refused.nonce
    assert clusters.wildcard
    assert clusters.resources == 1
    assert not clusters.in_sync
    assert clusters.nack is not None
    assert clusters.nack.message == "no good"
    assert server.clients() == ()


async def test_metrics_bear_istios_names(running: Running, state: State, make: Make) -> None:
    registry = CollectorRegistry()
    value = registry.get_sample_value
    state.set(make.cluster("a"))
    async with running(registry=registry) as server, connected(server) as client:
        await client.subscribe(CDS)
        reply = await client.receive()
        await client.nack(reply)
        server.push_now(PushRequest(triggers=("config",)))
        await client.subscribe(LDS)
        await client.next()
        assert value("pilot_xds", {"version": "model"}) == 1
        assert value("pilot_xds_pushes", {"type": "cds"}) == 1
        assert value("pilot_push_triggers", {"type": "config"}) == 1
        assert value("pilot_total_xds_rejects", {"type": "cds"}) == 1
        assert value("pilot_xds_cds_reject") == 1
        assert value("pilot_xds_push_time_count", {"type": "lds"}) == 1
        assert value("pilot_proxy_convergence_time_count") == 1
    assert value("pilot_xds", {"version": "model"}) == 0


async def test_the_end_of_the_server_ends_its_tasks(running: Running) -> None:
    async with running():
        before = {task.get_name() for task in asyncio.all_tasks()}
        assert {"xds debounce", "xds untaken responses"} <= before
    assert not {"xds debounce", "xds untaken responses"} & {
        task.get_name() for task in asyncio.all_tasks()
    }


class Notes(NullObserver):
    """Writes down what it is notified of."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_open(self, client: Client[object], /) -> None:
        self.events.append(f"opened {client.node.id}")

    def on_request(self, _client: Client[object], request: Any, /) -> None:
        if request.type_url == "refuse me":
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "as you like")
        if request.type_url == "break":
            raise ValueError("a fault of the observer")
        self.events.append(f"received {types.short_name(request.type_url)}")

    def on_response(self, _client: Client[object], response: Any, /) -> None:
        self.events.append(f"sent {types.short_name(response.type_url)}")

    def on_close(self, client: Client[object], /) -> None:
        self.events.append(f"closed {client.node.id}")


async def test_an_observer_is_notified_of_everything(
    running: Running, state: State, make: Make
) -> None:
    notes = Notes()
    state.set(make.cluster("a"))
    async with running(observer=notes) as server:
        async with connected(server, node_id="n") as client:
            await client.subscribe(CDS)
            await client.next()
            await client.subscribe("something else")
            await client.next()
    assert notes.events == [
        "opened n",
        "received cds",
        "sent cds",
        "received cds",
        "received other",
        "sent other",
        "received other",
        "closed n",
    ]


@pytest.mark.parametrize(
    ("type_url", "code"),
    [
        ("refuse me", grpc.StatusCode.FAILED_PRECONDITION),
        ("break", grpc.StatusCode.INTERNAL),
    ],
)
async def test_an_observer_may_end_a_stream_and_only_that(
    running: Running, type_url: str, code: grpc.StatusCode
) -> None:
    async with running(observer=Notes()) as server, connected(server) as other:
        await other.subscribe(CDS)
        await other.next()
        async with connected(server) as client:
            await client.subscribe(type_url)
            assert (await ends_with(client)).code is code
        await other.subscribe(LDS)
        await other.next()


async def test_what_a_client_was_sent_can_be_looked_at(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    async with running() as server, connected(server) as client:
        await client.subscribe(CDS)
        await client.next()
        (status,) = server.clients()
        assert server.sent_to(status.id) == {CDS: (state.resources[CDS]["a"],)}
        assert server.sent_to("somebody else") == {}


async def test_push_now_does_not_wait_for_others(
    running: Running, state: State, make: Make, clock: ManualClock, settle: Settle
) -> None:
    """As for endpoints where every moment counts; what was notified before goes on gathering."""
    built: list[tuple[str, ...]] = []

    def build(request: PushRequest) -> None:
        built.append(request.triggers)

    async with running(clock=clock, build=build) as server, connected(server) as client:
        await client.subscribe(CDS)
        await client.next()
        server.notify(PushRequest(triggers=("config",)))
        state.set(make.cluster("a"))
        server.push_now(PushRequest(incremental=True, triggers=("endpoint",)))
        assert built == [("endpoint",)]
        assert set((await client.next()).resources) == {"a"}
        await settle()
        await clock.advance(1)
        assert built == [("endpoint",), ("config",)]


async def test_an_expired_nonce_is_counted(running: Running, state: State, make: Make) -> None:
    registry = CollectorRegistry()
    state.set(make.cluster("a"))
    async with running(registry=registry) as server, connected(server) as client:
        await client.subscribe(CDS)
        first = await client.next()
        state.set(make.cluster("a", change=1))
        server.push_now(PushRequest())
        await client.next()
        await client.ack(first)
        await client.subscribe(LDS)
        await client.next()
        assert registry.get_sample_value("pilot_xds_expired_nonce", {"type": "cds"}) == 1


async def test_once_it_is_quiet_every_change_notified_is_committed(
    running: Running, clock: ManualClock, settle: Settle
) -> None:
    registry = CollectorRegistry()
    broken = False

    def build(_request: PushRequest) -> None:
        assert not broken

    config = ServerConfig(debounce_quiet_s=1.0)
    async with running(config=config, clock=clock, build=build, registry=registry) as server:
        for _ in range(3):
            server.notify(PushRequest())
        await settle()
        assert (server.updates().inbound, server.updates().committed) == (3, 0)
        server.push_now(PushRequest())
        assert server.updates().pending == 3
        await clock.advance(1)
        assert server.updates().inbound == server.updates().committed == 4
        broken = True
        server.notify(PushRequest())
        await clock.advance(1)
        assert server.updates().pending == 0
    assert registry.get_sample_value("xds_server_committed_updates") == 5
    assert registry.get_sample_value("pilot_inbound_updates", {"type": "full"}) == 5


async def test_what_admits_a_client_may_say_how_long_its_listeners_drain(
    state: State, make: Make
) -> None:
    async def admit(node: Node, _peer: Peer) -> Admission[None]:
        return Admission(context=None, drain_time_s=0.0 if node.id == "short" else None)

    state.set(make.cluster("a", eds=False), make.listener("l"))
    config = ServerConfig(drain_time_s=3600.0)
    server: XdsServer[None] = XdsServer({CDS: state, LDS: state}, admit=admit, config=config)
    server.set_ready()
    async with (
        server.running(),
        in_memory(server, delta=True) as one,
        in_memory(server, delta=True) as other,
    ):
        clients = [DeltaClient(one, node_id="short"), DeltaClient(other, node_id="long")]
        for client in clients:
            await client.subscribe(CDS)
            await client.next()
            await client.subscribe(LDS)
            await client.next()
        state.drop(CDS, "a")
        state.set(make.cluster("b", eds=False))
        server.push_now(PushRequest())
        short, long = clients
        while "a" in short.resources(CDS):
            await short.next()
        await long.next()
        assert set(long.resources(CDS)) == {"a", "b"}
