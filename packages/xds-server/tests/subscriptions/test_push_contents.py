"""A push is a cut through one state, and what a client asks for meanwhile is of that state too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xds_server import Resource
from xds_server import type_urls as types
from xds_server.protocol._references import routes_of
from xds_state import Core, Make, Names, NewCore, State

CDS, EDS, LDS, RDS = types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE


def bring(state: State, make: Make, number: int) -> None:
    """Everything is replaced: cluster, endpoints, route, and the listener that refers to it."""
    state.resources.clear()
    name = f"c{number}"
    state.set(
        make.cluster(name),
        make.endpoints(name),
        make.http_listener("l", route=f"r{number}"),
        make.route(f"r{number}", change=number),
    )


class Envoy:
    """A client that asks for endpoints of clusters, and for routes of listeners, as it reads."""

    def __init__(self, core: Core, names: Names, *, delta: bool) -> None:
        self.core = core
        self.names = names
        self.delta = delta
        self.clusters: set[str] = set()
        self.endpoints: set[str] = set()
        self.wanted: dict[str, list[str]] = {EDS: [], RDS: []}
        self.routes: dict[str, int] = {}
        self.log: list[tuple[str, list[str]]] = []

    def start(self) -> None:
        for type_url in (CDS, LDS):
            self.read(self.core.delta(type_url) if self.delta else self.core.request(type_url))

    def read(self, replies: list[Any]) -> None:
        """Take in responses one after another, each with what it makes the client say."""
        waiting = list(replies)
        while waiting:
            reply = waiting.pop(0)
            waiting += self._take(reply)

    def take_first(self, replies: list[Any]) -> list[Any]:
        """Take in the first only; what is left and what it leads to."""
        first, *rest = replies
        return rest + self._take(first)

    def _take(self, reply: Any) -> list[Any]:
        names = self.names(reply)
        self.log.append((reply.type_url, names))
        removed = set(getattr(reply, "removed_resources", ()))
        new: list[str] = []
        if reply.type_url == CDS:
            self.clusters = (self.clusters | set(names)) - removed if self.delta else set(names)
            new = [name for name in names if name not in self.wanted[EDS]]
            self.wanted[EDS] += new
        elif reply.type_url == EDS:
            self.endpoints |= set(names)
        elif reply.type_url == LDS and names:
            new = [n for n in self._routes_in(reply) if n not in self.wanted[RDS]]
            self.wanted[RDS] += new
        elif reply.type_url == RDS:
            for name in names:
                cluster = f"c{name[1:]}"
                assert cluster in self.clusters, f"{name} came before {cluster}"
                assert cluster in self.endpoints, f"{name} came before the endpoints of {cluster}"
        replies = self._say(reply.type_url, reply)
        requested = {CDS: EDS, LDS: RDS}.get(reply.type_url)
        if new and requested:
            replies += self._ask(requested, new)
        return replies

    def _routes_in(self, reply: Any) -> list[str]:
        bodies = [r.resource.value if self.delta else r.value for r in reply.resources]
        listeners = [Resource(name="l", type_url=LDS, body=body, version="") for body in bodies]
        return [name for listener in listeners for name in routes_of(listener)]

    def _say(self, type_url: str, reply: Any) -> list[Any]:
        self.nonces = {**getattr(self, "nonces", {}), type_url: reply.nonce}
        if self.delta:
            return list(self.core.ack(reply))
        return list(self.core.ack(reply, *self.wanted.get(type_url, ())))

    def _ask(self, type_url: str, new: list[str]) -> list[Any]:
        if self.delta:
            return list(self.core.delta(type_url, subscribe=set(new)))
        nonce = getattr(self, "nonces", {}).get(type_url, "")
        return list(self.core.request(type_url, *self.wanted[type_url], nonce=nonce))


@pytest.fixture(params=["sotw", "delta"])
def envoy(request: Any, state: State, make: Make, names: Names) -> Envoy:
    core = request.getfixturevalue(request.param)
    core.drain_time_s = 45.0
    core.reset()
    client = Envoy(core, names, delta=request.param == "delta")
    bring(state, make, 0)
    client.start()
    return client


def test_every_type_of_a_push_is_of_the_state_it_began_with(
    envoy: Envoy, state: State, make: Make
) -> None:
    bring(state, make, 1)
    replies = envoy.core.push()
    bring(state, make, 2)
    envoy.log.clear()
    envoy.read(replies)
    seen = {type_url: names for type_url, names in envoy.log if names}
    assert "c1" in seen[CDS]
    assert seen[EDS] == ["c1"]
    assert seen[LDS] == ["l"]
    assert seen[RDS] == ["r1"]
    assert not envoy.core.push_in_flight


def test_routes_of_a_new_listener_are_sent_although_they_are_gone_again(
    envoy: Envoy, state: State, make: Make
) -> None:
    """The client asks for them when it has read the listener, when the state has moved on."""
    bring(state, make, 1)
    replies = envoy.core.push()
    state.resources.clear()
    envoy.log.clear()
    envoy.read(replies)
    assert (RDS, ["r1"]) in envoy.log


def test_an_ack_in_the_middle_of_a_push_removes_nothing(
    envoy: Envoy, state: State, make: Make
) -> None:
    """Not even with no time to drain: what replaces it has not been sent yet."""
    envoy.core.stream.removals.drain_time_s = 0.0
    bring(state, make, 1)
    replies = envoy.core.push()
    while not any(type_url == RDS for type_url, _ in envoy.log[-1:]):
        assert "c0" in envoy.clusters
        replies = envoy.take_first(replies)
    envoy.read(replies)
    assert envoy.clusters == {"c1"}
    last_route = max(n for n, (type_url, _) in enumerate(envoy.log) if type_url == RDS)
    last_clusters = max(n for n, (type_url, _) in enumerate(envoy.log) if type_url == CDS)
    assert last_route < last_clusters


def test_a_client_that_does_not_ask_for_routes_holds_a_push_for_a_while_only(
    sotw: Core, state: State, make: Make
) -> None:
    bring(state, make, 0)
    first = {t: sotw.request(t, *n) for t, n in ((CDS, []), (LDS, []), (RDS, ["r0"]))}
    for replies in first.values():
        for reply in replies:
            sotw.ack(reply, *(["r0"] if reply.type_url == RDS else []))
    bring(state, make, 1)
    sotw.push()
    assert sotw.push_in_flight
    sotw.now = sotw.stream.next_due_at()
    sotw.go_on()
    assert not sotw.push_in_flight


steps = st.lists(st.sampled_from(["change", "push", "read", "read", "read"]), max_size=60)


@settings(max_examples=300, deadline=None, database=None)
@given(what_happens=steps, delta=st.booleans())
def test_no_route_comes_before_its_cluster_and_endpoints(
    new_core: NewCore,
    make: Make,
    names: Names,
    what_happens: list[str],
    delta: bool,  # noqa: FBT001
) -> None:
    """However changes, pushes and what the client reads follow upon one another."""
    core, state = new_core(delta=delta)
    core.drain_time_s = 45.0
    core.reset()
    client = Envoy(core, names, delta=delta)
    bring(state, make, 0)
    client.start()
    number, waiting = 0, []
    for step in [*what_happens, *["read"] * 200, "push", *["read"] * 200]:
        if step == "change":
            number += 1
            bring(state, make, number)
        elif step == "push":
            if not core.push_in_flight:
                waiting += core.push()
        elif waiting:
            waiting = client.take_first(waiting)
        elif core.push_in_flight and core.stream.next_due_at() is not None:
            core.now = core.stream.next_due_at()
            waiting += core.go_on()
    assert f"c{number}" in client.clusters
    assert (RDS, [f"r{number}"]) in client.log
