"""What is removed stays for as long as connections of old listeners may use it."""

from __future__ import annotations

from typing import Any

import pytest

from xds_server import type_urls as types
from xds_state import Core, Make, Names, State

CDS, EDS, LDS, RDS = types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE
DRAIN_S = 45.0
ORDER_WAIT_S = 5.0


class Stream:
    """A client that has everything, and accepts at once whatever it is sent."""

    def __init__(self, core: Core, state: State, make: Make, *, delta: bool) -> None:
        self.core, self.state, self.make, self.delta = core, state, make, delta
        self.clusters: set[str] = set()
        self.routes: set[str] = set()
        core.drain_time_s = DRAIN_S
        core.reset()
        state.set(make.cluster("a", eds=False), make.route("r"), make.listener("l"))
        self.query(CDS)
        self.query(LDS)
        self.query(RDS, "r")
        core.now = DRAIN_S + 1  # what an older stream may have left behind has drained

    def query(self, type_url: str, *names: str, **fields: Any) -> None:
        if self.delta:
            self.accept(self.core.delta(type_url, subscribe=set(names), **fields))
        else:
            self.accept(self.core.request(type_url, *names))

    def accept(self, replies: list[Any]) -> None:
        for reply in replies:
            self.take(reply)
            self.accept(self.core.ack(reply, *(["r"] if reply.type_url == RDS else [])))

    def take(self, reply: Any) -> None:
        names = {CDS: self.clusters, RDS: self.routes}.get(reply.type_url)
        if names is None:
            return
        if not self.delta and reply.type_url == CDS:
            names.clear()
        names |= {name for name in ("a", "b", "r") if any(_is(r, name) for r in reply.resources)}
        names -= set(getattr(reply, "removed_resources", ()))

    def replace_cluster(self) -> None:
        self.state.drop(CDS, "a")
        self.state.set(self.make.cluster("b", eds=False), self.make.route("r", change=1))

    def go_on(self, at: float) -> None:
        self.core.now = at
        self.accept(self.core.go_on())


def _is(resource: Any, name: str) -> bool:
    body = resource.resource.value if hasattr(resource, "resource") else resource.value
    return bool(body.startswith(b"\x0a\x01" + name.encode()))


@pytest.fixture(params=["sotw", "delta"])
def stream(request: Any, state: State, make: Make) -> Stream:
    core = request.getfixturevalue(request.param)
    return Stream(core, state, make, delta=request.param == "delta")


def test_with_a_listener_that_changed_a_cluster_stays_until_the_old_one_has_drained(
    stream: Stream,
) -> None:
    stream.replace_cluster()
    stream.state.set(stream.make.listener("l", change=1))
    started = stream.core.now
    stream.accept(stream.core.push())
    assert stream.clusters == {"a", "b"}
    assert stream.core.stream.next_due_at() == started + DRAIN_S
    stream.go_on(started + DRAIN_S - 0.1)
    assert stream.clusters == {"a", "b"}
    stream.go_on(started + DRAIN_S)
    assert stream.clusters == {"b"}
    assert stream.core.stream.next_due_at() is None


def test_the_answer_is_held_from_which_the_next_is_built_while_a_removal_is_held_back(
    stream: Stream,
) -> None:
    held = [stream.core.subscription(CDS).answer]
    stream.replace_cluster()
    stream.state.set(stream.make.listener("l", change=1))
    started = stream.core.now
    for change in range(2):
        stream.state.set(stream.make.cluster("b", eds=False, change=change))
        stream.accept(stream.core.push())
        held.append(stream.core.subscription(CDS).answer)
    stream.go_on(started + DRAIN_S)
    held.append(stream.core.subscription(CDS).answer)
    assert [sorted(each) for each in held] == [[], ["b"], ["b"], []]
    assert held[1]["b"].version != held[2]["b"].version
    assert all(not s.answer for s in stream.core.stream.subscriptions.values())


def test_with_a_listener_that_is_removed_a_cluster_stays_as_long(stream: Stream) -> None:
    stream.replace_cluster()
    stream.state.drop(LDS, "l")
    started = stream.core.now
    stream.accept(stream.core.push())
    assert stream.clusters == {"a", "b"}
    stream.go_on(started + DRAIN_S)
    assert stream.clusters == {"b"}


def test_with_no_listener_changed_a_cluster_goes_when_the_routes_are_accepted(
    stream: Stream,
) -> None:
    stream.replace_cluster()
    stream.accept(stream.core.push())
    assert stream.clusters == {"b"}


def test_while_a_listener_of_before_still_drains_a_cluster_stays(stream: Stream) -> None:
    stream.state.set(stream.make.listener("l", change=1))
    stream.accept(stream.core.push())
    stream.core.now += DRAIN_S / 2
    stream.replace_cluster()
    stream.accept(stream.core.push())
    assert stream.clusters == {"a", "b"}


def test_a_client_that_never_accepts_does_not_keep_what_is_removed(stream: Stream) -> None:
    stream.replace_cluster()
    stream.state.set(stream.make.listener("l", change=1))
    started = stream.core.now
    for reply in stream.core.push():
        stream.take(reply)
    assert stream.clusters == {"a", "b"}
    for at in (started + ORDER_WAIT_S, started + ORDER_WAIT_S + DRAIN_S):
        stream.core.now = at
        for reply in stream.core.go_on():
            stream.take(reply)
    assert stream.clusters == {"b"}
    assert not stream.core.subscription(CDS).pending_removals
    assert not stream.core.subscription(CDS).removal_times


def test_a_client_that_never_accepts_and_is_pushed_to_all_the_time_keeps_nothing_either(
    stream: Stream,
) -> None:
    stream.replace_cluster()
    change = 0
    while stream.core.now < 2 * (ORDER_WAIT_S + DRAIN_S):
        stream.core.now += 1
        change += 1
        stream.state.set(stream.make.listener("l", change=change))
        for reply in stream.core.push():
            stream.take(reply)
    assert stream.clusters == {"b"}


def test_what_comes_back_while_it_is_leaving_stays(stream: Stream) -> None:
    stream.replace_cluster()
    stream.state.set(stream.make.listener("l", change=1))
    stream.accept(stream.core.push())
    stream.state.set(stream.make.cluster("a", eds=False))
    stream.core.now += DRAIN_S - 1
    stream.accept(stream.core.push())
    stream.go_on(stream.core.now + 2 * DRAIN_S)
    assert stream.clusters == {"a", "b"}
    stream.state.drop(CDS, "a")
    stream.state.set(stream.make.listener("l", change=2))
    started = stream.core.now
    stream.accept(stream.core.push())
    stream.go_on(started + DRAIN_S - 0.1)
    assert stream.clusters == {"a", "b"}, "its time counts from when it left for the second time"
    stream.go_on(started + DRAIN_S)
    assert stream.clusters == {"b"}


def test_what_comes_back_changed_is_sent(stream: Stream) -> None:
    stream.replace_cluster()
    stream.state.set(stream.make.listener("l", change=1))
    stream.accept(stream.core.push())
    stream.state.set(stream.make.cluster("a", change=7, eds=False))
    replies = stream.core.push()
    assert [reply.type_url for reply in replies] == [CDS]


def test_routes_stay_as_long_as_clusters(delta: Core, state: State, make: Make) -> None:
    """Where the protocol has a word for what is gone."""
    stream = Stream(delta, state, make, delta=True)
    state.drop(RDS, "r")
    state.set(make.listener("l", change=1))
    started = stream.core.now
    stream.accept(stream.core.push())
    assert stream.routes == {"r"}
    stream.go_on(started + DRAIN_S)
    assert stream.routes == set()


def test_a_client_that_reconnects_keeps_what_its_listeners_may_still_use(
    delta: Core, state: State, make: Make
) -> None:
    stream = Stream(delta, state, make, delta=True)
    started = stream.core.now
    stream.core.reset()
    stream.replace_cluster()
    stream.query(CDS, initial_versions={"a": "1"})
    assert stream.clusters == {"a", "b"}
    stream.go_on(started + ORDER_WAIT_S)
    stream.go_on(started + ORDER_WAIT_S + DRAIN_S)
    assert stream.clusters == {"b"}


def test_endpoints_of_a_cluster_that_stays_stay_too(delta: Core, state: State, make: Make) -> None:
    stream = Stream(delta, state, make, delta=True)
    state.set(make.cluster("e"), make.endpoints("e"))
    stream.accept(stream.core.push())
    stream.query(EDS, "e")
    stream.core.now += DRAIN_S + 1
    state.drop(CDS, "e")
    state.drop(EDS, "e")
    state.set(make.listener("l", change=1))
    started = stream.core.now
    replies = stream.core.push()
    stream.accept(replies)
    assert not any(reply.removed_resources for reply in replies)
    stream.core.now = started + DRAIN_S
    assert [reply.type_url for reply in stream.core.go_on()] == [EDS, CDS]


class Returning:
    """A state-of-the-world client with cluster `a`, which comes back when that is replaced."""

    def __init__(self, core: Core, state: State, make: Make, names: Names) -> None:
        self.core, self.state, self.names = core, state, names
        core.drain_time_s = DRAIN_S
        core.reset()
        state.set(make.cluster("a"), make.endpoints("a"), make.route("r"), make.listener("l"))
        self.query(CDS)
        self.query(EDS, "a")
        self.query(LDS)
        self.query(RDS, "r")
        core.now = 1000.0
        state.drop(CDS, "a")
        state.drop(EDS, "a")
        state.set(make.cluster("b", eds=False), make.route("r", change=1))

    def query(self, type_url: str, *names: str, version: str = "") -> list[str]:
        """Ask and accept; what of the type is there afterwards."""
        (reply,) = self.core.request(type_url, *names, version=version)
        self.core.ack(reply, *names)
        found: list[str] = self.names(reply)
        return found

    def comes_back(self, *, version: str) -> list[str]:
        """A new stream; the clusters it begins with."""
        self.core.reset()
        clusters = self.query(CDS, version=version)
        for type_url, of_type in ((LDS, ()), (RDS, ("r",))):
            for reply in self.core.request(type_url, *of_type, version=version):
                self.core.ack(reply, *of_type)
        return clusters


@pytest.fixture
def returning(sotw: Core, state: State, make: Make, names: Names) -> Returning:
    return Returning(sotw, state, make, names)


def test_a_client_that_comes_back_keeps_what_its_listeners_may_drain_with(
    returning: Returning,
) -> None:
    assert returning.comes_back(version="v1") == ["a", "b"]
    core = returning.core
    core.now += DRAIN_S - 0.1
    assert core.go_on() == []
    core.now += 0.2
    (reply,) = core.go_on()
    assert returning.names(reply) == ["b"]


def test_one_that_comes_back_again_and_again_keeps_it_too(returning: Returning) -> None:
    for _ in range(3):
        returning.core.reset()  # gone before it has asked
        assert returning.comes_back(version="v1") == ["a", "b"]


def test_what_comes_back_with_nothing_is_sent_nothing_that_is_gone(returning: Returning) -> None:
    """A new Envoy of the same node would warm it in vain."""
    assert returning.comes_back(version="") == ["b"]


def test_one_that_was_elsewhere_meanwhile_is_sent_what_there_is(returning: Returning) -> None:
    assert returning.comes_back(version="another server's") == ["b"]


def test_a_cluster_that_is_there_again_is_no_longer_on_its_way_out(
    returning: Returning, make: Make
) -> None:
    returning.comes_back(version="v1")
    returning.state.set(make.cluster("a"))
    for reply in returning.core.push():
        returning.core.ack(reply, *(["r"] if reply.type_url == RDS else []))
    returning.core.now += 2 * DRAIN_S
    assert returning.core.go_on() == []
