"""Ready-to-use configuration: snapshots, linear stores, a mux of sources, and the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import scoped_route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)

from xds_server import (
    Client,
    ConfigKey,
    Generated,
    LinearStore,
    Mux,
    PushRequest,
    Resource,
    Snapshot,
    SnapshotStore,
    Watch,
    XdsServer,
)
from xds_server import type_urls as types
from xds_server.testing import DeltaClient, SotwClient, admit_all, in_memory
from xds_state import Make

CDS, EDS, LDS, RDS = types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE


@pytest.fixture
def store() -> SnapshotStore[None]:
    return SnapshotStore()


def serve(store: SnapshotStore[None]) -> XdsServer[None]:
    server = XdsServer(store.generators(), admit=admit_all, needs_push=store.needs_push)
    server.set_ready()
    return server


async def test_a_client_without_a_snapshot_waits_for_one(
    store: SnapshotStore[None], make: Make
) -> None:
    server = serve(store)
    async with server.running(), in_memory(server) as wire:
        client = SotwClient(wire, node_id="n")
        await client.subscribe(CDS)
        await client.subscribe(EDS, "a")
        server.push_now(store.set("n", Snapshot.build([make.cluster("a"), make.endpoints("a")])))
        assert {(await client.next()).type_url for _ in range(2)} == {CDS, EDS}


async def test_a_snapshot_reaches_its_group_only(store: SnapshotStore[None], make: Make) -> None:
    server = serve(store)
    for group in "xy":
        store.set(group, Snapshot.build([make.listener("l")], version="1"))
    async with server.running(), in_memory(server) as wire_x, in_memory(server) as wire_y:
        x, y = SotwClient(wire_x, node_id="x"), SotwClient(wire_y, node_id="y")
        for client in (x, y):
            await client.subscribe(LDS)
            assert (await client.next()).version == "1"
        for version, group in (("2", "x"), ("3", "y")):
            snapshot = Snapshot.build([make.listener("l", change=int(version))], version=version)
            server.push_now(store.set(group, snapshot))
        assert (await x.next()).version == "2"
        assert (await y.next()).version == "3"


@pytest.mark.parametrize("delta", [False, True])
async def test_a_request_that_names_part_of_a_snapshot_gets_that_part(
    store: SnapshotStore[None], make: Make, *, delta: bool
) -> None:
    server = serve(store)
    store.set("n", Snapshot.build([make.endpoints(name) for name in "abc"]))
    async with server.running(), in_memory(server, delta=delta) as wire:
        client = (DeltaClient if delta else SotwClient)(wire, node_id="n")
        await client.subscribe(EDS, "a", "missing")
        reply = await client.next()
        assert set(reply.resources) == {"a"}
        assert reply.removed == (frozenset({"missing"}) if delta else frozenset())
        await client.subscribe(EDS, "a", "b", "missing")
        assert "b" in (await client.next()).resources


async def test_a_resource_that_left_a_snapshot_is_removed(
    store: SnapshotStore[None], make: Make
) -> None:
    server = serve(store)
    store.set("n", Snapshot.build([make.route("a"), make.route("b")]))
    async with server.running(), in_memory(server, delta=True) as wire:
        client = DeltaClient(wire, node_id="n")
        await client.subscribe(RDS, "a", "b")
        await client.next()
        server.push_now(store.set("n", Snapshot.build([make.route("a")])))
        reply = await client.next()
        assert (set(reply.resources), reply.removed) == (set[str](), frozenset({"b"}))


async def test_types_of_a_snapshot_come_in_order(store: SnapshotStore[None], make: Make) -> None:
    server = serve(store)

    def snapshot(change: int) -> Snapshot:
        return Snapshot.build(
            [
                make.route("r", change=change),
                make.listener("l", change=change),
                make.endpoints("a", change=change),
                make.cluster("a", change=change),
            ]
        )

    store.set("n", snapshot(0))
    async with server.running(), in_memory(server) as wire:
        client = SotwClient(wire, node_id="n")
        for type_url, names in ((RDS, ["r"]), (LDS, []), (EDS, ["a"]), (CDS, [])):
            await client.subscribe(type_url, *names)
            await client.next()
        await client.next()  # the endpoints again, after the cluster
        server.push_now(store.set("n", snapshot(1)))
        assert [(await client.next()).type_url for _ in range(4)] == [CDS, EDS, LDS, RDS]


def test_a_snapshot_says_what_does_not_fit(make: Make) -> None:
    fitting = Snapshot.build(
        [make.cluster("a"), make.endpoints("a"), make.cluster("static", eds=False)]
    )
    assert fitting.problems() == ()
    unfit = Snapshot.build([make.cluster("a"), make.endpoints("b"), make.route("r")])
    assert unfit.problems() == (
        "endpoints 'a' are missing, a cluster needs them",
        "endpoints 'b' belong to no cluster",
        "routes 'r' belong to no listener",
    )


def test_a_snapshot_knows_the_routes_of_its_listeners(make: Make) -> None:
    assert Snapshot.build([make.http_listener("l", route="r"), make.route("r")]).problems() == ()
    assert Snapshot.build([make.http_listener("l", route="r")]).problems() == (
        "routes 'r' are missing, a listener needs them",
    )


def scoped_listener(*, inline_route: str = "") -> Resource:
    """A listener whose scopes come over xDS, or are written in it."""
    manager: Any = http_connection_manager_pb2.HttpConnectionManager()
    if inline_route:
        scopes = manager.scoped_routes.scoped_route_configurations_list
        scopes.scoped_route_configurations.add(name="s", route_configuration_name=inline_route)
    else:
        manager.scoped_routes.scoped_rds.SetInParent()
    message: Any = listener_pb2.Listener(name="l")
    message.filter_chains.add().filters.add().typed_config.Pack(manager)
    return Resource.pack(message, name="l")


def scope(route: str) -> Resource:
    message = scoped_route_pb2.ScopedRouteConfiguration(name="s", route_configuration_name=route)
    return Resource.pack(message, name="s")


def test_a_snapshot_knows_the_routes_of_scopes(make: Make) -> None:
    routes = make.route("r")
    assert Snapshot.build([scoped_listener(), scope("r"), routes]).problems() == ()
    assert Snapshot.build([scoped_listener(inline_route="r"), routes]).problems() == ()
    assert Snapshot.build([scoped_listener(), scope("r")]).problems() == (
        "routes 'r' are missing, a scoped route needs them",
    )
    assert Snapshot.build([scoped_listener(inline_route="r")]).problems() == (
        "routes 'r' are missing, a listener needs them",
    )
    assert Snapshot.build([scope("r"), routes]).problems() == (
        "scoped routes 's' belong to no listener",
    )


def test_what_a_linear_store_looks_at_is_what_changed(make: Make) -> None:
    store = LinearStore(EDS, [make.endpoints(name) for name in "abc"])
    request = store.update(make.endpoints("b", change=1), make.endpoints("c"))
    assert {key.name for key in request.configs_updated} == {"b"}
    client: Any = None
    watch = Watch(type_url=EDS, names=frozenset("ab"))
    generated = store.generate(client, watch, request)
    assert generated is not None
    assert [resource.name for resource in generated.resources] == ["b"]
    others = Watch(type_url=EDS, names=frozenset("a"))
    assert store.generate(client, others, request) is None


@pytest.mark.parametrize(
    ("type_url", "incremental"),
    [
        (types.CLUSTER, False),
        (types.ENDPOINT, True),
        (types.LISTENER, False),
        (types.ROUTE, False),
        (types.SCOPED_ROUTE, False),
        (types.VIRTUAL_HOST, False),
        (types.SECRET, True),
        (types.RUNTIME, True),
        (types.EXTENSION_CONFIG, False),
        ("type.googleapis.com/one.of.ones.own", False),
    ],
)
def test_changes_of_types_that_refer_to_nothing_are_incremental(
    type_url: str, *, incremental: bool
) -> None:
    store = LinearStore(type_url)
    resource = Resource(name="a", type_url=type_url, body=b"", version="1")
    assert store.update(resource).incremental is incremental
    assert store.delete("a").incremental is incremental
    assert store.replace([resource]).incremental is incremental


@pytest.mark.parametrize("delta", [False, True])
async def test_a_linear_store_wakes_watchers_of_names_prefixes_and_everything(
    make: Make, *, delta: bool
) -> None:
    store = LinearStore(LDS, [make.listener("x/a"), make.listener("y/a")])
    server: XdsServer[None] = XdsServer({LDS: store}, admit=admit_all)
    server.set_ready()
    kind = DeltaClient if delta else SotwClient
    async with (
        server.running(),
        in_memory(server, delta=delta) as by_name,
        in_memory(server, delta=delta) as by_prefix,
        in_memory(server, delta=delta) as by_wildcard,
    ):
        one, below, every = kind(by_name), kind(by_prefix), kind(by_wildcard)
        await one.subscribe(LDS, "x/a")
        await below.subscribe(LDS, "x/*")
        await every.subscribe(LDS)
        assert set((await one.next()).resources) == {"x/a"}
        assert set((await below.next()).resources) == {"x/a"}
        assert set((await every.next()).resources) == {"x/a", "y/a"}
        server.push_now(store.update(make.listener("x/b")))
        assert "x/b" in (await below.next()).resources
        assert "x/b" in (await every.next()).resources
        server.push_now(store.delete("x/a"))
        replies = [await client.next() for client in (one, below, every)]
        if delta:
            assert {reply.removed for reply in replies} == {frozenset({"x/a"})}
        assert [set(client.resources(LDS)) - {"x/a"} for client in (below, every)] == [
            {"x/b"},
            {"x/b", "y/a"},
        ]


def test_what_changes_nothing_is_no_change_and_pushes_no_client(make: Make) -> None:
    store = LinearStore(EDS, [make.endpoints("a")])
    change = make.endpoints("a", change=1)
    for request in (
        store.update(make.endpoints("a")),
        store.delete("nonsense"),
        store.replace([make.endpoints("a")]),
        store.apply([]),
    ):
        assert not request.changed
        assert request.merge(store.update(change)).configs_updated
        store.update(make.endpoints("a"))


async def test_a_server_is_not_moved_by_what_changes_nothing(make: Make) -> None:
    store = LinearStore(EDS, [make.endpoints("a")])
    requested: list[PushRequest] = []

    def needs_push(_client: Client[None], request: PushRequest) -> bool:
        requested.append(request)
        return True

    server: XdsServer[None] = XdsServer({EDS: store}, admit=admit_all, needs_push=needs_push)
    server.set_ready()
    async with server.running(), in_memory(server, delta=True) as wire:
        client = DeltaClient(wire, node_id="n")
        await client.subscribe(EDS, "a")
        await client.next()
        server.push_now(store.update(make.endpoints("a")))
        server.notify(store.delete("nonsense"))
        assert (requested, server.updates().inbound) == ([], 0)
        server.push_now(store.update(make.endpoints("a", change=1)))
        assert set((await client.next()).resources) == {"a"}
        assert len(requested) == 1


def test_another_ttl_is_a_change(make: Make) -> None:
    resource = make.endpoints("a")
    store = LinearStore(EDS, [resource])
    request = store.update(replace(resource, ttl_s=10.0))
    assert [key.name for key in request.configs_updated] == ["a"]
    assert store.get("a") == replace(resource, ttl_s=10.0)


async def test_a_linear_store_may_say_its_version(make: Make) -> None:
    store = LinearStore(EDS, [make.endpoints("a")], version="seven")
    server: XdsServer[None] = XdsServer({EDS: store}, admit=admit_all)
    server.set_ready()
    async with server.running(), in_memory(server) as wire:
        client = SotwClient(wire, node_id="n")
        await client.subscribe(EDS, "a")
        assert (await client.next()).version == "seven"
        server.push_now(store.update(make.endpoints("a", change=1), version="eight"))
        assert (await client.next()).version == "eight"
        server.push_now(store.update(make.endpoints("a", change=2)))
        assert (await client.next()).version not in {"seven", "eight"}


def test_replacing_a_linear_store_is_a_change_of_what_differs(make: Make) -> None:
    store = LinearStore(EDS, [make.endpoints("same"), make.endpoints("gone")])
    request = store.replace([make.endpoints("same"), make.endpoints("new")])
    assert {key.name for key in request.configs_updated} == {"gone", "new"}
    assert len(store) == 2


def test_a_mux_asks_the_source_that_was_chosen(make: Make) -> None:
    sources: dict[str, Any] = {
        name: LinearStore(EDS, [make.endpoints(name)]) for name in ("east", "west")
    }

    def choose(client: Client[str], _type_url: str) -> str:
        return client.context

    mux = Mux(sources, choose=choose)
    watch = Watch(type_url=EDS, wildcard=True)
    for where in ("east", "west"):
        client: Any = Client(id="c", node=None, identities=(), context=where)  # type: ignore[arg-type]
        generated = mux.generate(client, watch, None)
        assert isinstance(generated, Generated)
        assert [resource.name for resource in generated.resources] == [where]
    nowhere: Any = Client(id="c", node=None, identities=(), context="north")  # type: ignore[arg-type]
    assert mux.generate(nowhere, watch, PushRequest()) is None


A, B = ConfigKey("Service", "a", "ns"), ConfigKey("Service", "b", "ns")
