"""The delta rules, one by one, on the core alone."""

from __future__ import annotations

from typing import Any

import pytest

from xds_server import type_urls as types
from xds_state import Core, Make, Names, State

CDS, EDS, LDS, RDS, SDS = (
    types.CLUSTER,
    types.ENDPOINT,
    types.LISTENER,
    types.ROUTE,
    types.SECRET,
)


def test_first_request_is_answered_and_its_ack_is_not(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    cluster = make.cluster("a")
    state.set(cluster)
    (reply,) = delta.delta(CDS)
    assert names(reply) == ["a"]
    assert reply.resources[0].version == cluster.version
    assert reply.resources[0].resource.type_url == CDS
    assert reply.system_version_info == "v1"
    assert delta.ack(reply) == []
    assert delta.subscription(CDS).nonce_acked == reply.nonce


def test_first_word_on_a_wildcard_comes_even_if_it_is_nothing(delta: Core) -> None:
    (reply,) = delta.delta(CDS)
    assert (list(reply.resources), list(reply.removed_resources)) == ([], [])


def test_only_what_changed_is_sent(delta: Core, state: State, make: Make, names: Names) -> None:
    state.set(*(make.listener(name) for name in "abc"))
    delta.delta(LDS)
    assert delta.push() == []
    state.set(make.listener("b", change=1))
    (reply,) = delta.push()
    assert (names(reply), list(reply.removed_resources)) == (["b"], [])


def test_a_deleted_resource_is_removed_and_nothing_else_is_sent(
    delta: Core, state: State, make: Make
) -> None:
    state.set(make.cluster("a"), make.cluster("b"))
    (reply,) = delta.delta(CDS)
    delta.ack(reply)
    state.drop(CDS, "a")
    (reply,) = delta.push()
    assert (list(reply.resources), list(reply.removed_resources)) == ([], ["a"])
    delta.ack(reply)
    assert delta.push() == []


def test_reconnect_sends_the_difference_only(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.listener("same"), make.listener("changed"), make.listener("gone"))
    (reply,) = delta.delta(LDS)
    versions = {resource.name: resource.version for resource in reply.resources}
    delta.reset()
    state.set(make.listener("changed", change=1), make.listener("new"))
    state.drop(LDS, "gone")
    (reply,) = delta.delta(LDS, initial_versions=versions)
    assert names(reply) == ["changed", "new"]
    assert list(reply.removed_resources) == ["gone"]


def test_reconnect_with_nothing_changed_is_answered_without_resources_if_it_asks_for_all(
    delta: Core, state: State, make: Make
) -> None:
    state.set(make.listener("a"), make.route("r"))
    (listeners,) = delta.delta(LDS)
    (routes,) = delta.delta(RDS, subscribe=["r"])
    delta.reset()
    (reply,) = delta.delta(LDS, initial_versions=versions_in(listeners))
    assert (list(reply.resources), list(reply.removed_resources)) == ([], [])
    assert delta.delta(RDS, subscribe=["r"], initial_versions=versions_in(routes)) == []


def test_reconnect_with_a_name_that_vanished_removes_it(delta: Core) -> None:
    (reply,) = delta.delta(RDS, subscribe=["gone"], initial_versions={"gone": "1"})
    assert list(reply.removed_resources) == ["gone"]


def test_subscribing_more_gets_the_new_only_and_unsubscribing_nothing(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    delta.delta(EDS, subscribe=["a"])
    (reply,) = delta.delta(EDS, subscribe=["b"])
    assert names(reply) == ["b"]
    assert delta.delta(EDS, unsubscribe=["a"]) == []
    state.set(make.endpoints("a", change=1))
    assert delta.push(incremental=True) == []


def test_a_name_subscribed_again_is_sent_again(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    """The client may have dropped it, and wants it back before it said so."""
    state.set(make.endpoints("a"))
    delta.delta(EDS, subscribe=["a"])
    (reply,) = delta.delta(EDS, subscribe=["a"])
    assert names(reply) == ["a"]
    delta.delta(EDS, unsubscribe=["a"])
    (reply,) = delta.delta(EDS, subscribe=["a"])
    assert names(reply) == ["a"]


def test_subscriptions_change_even_with_an_old_nonce(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (first,) = delta.delta(EDS, subscribe=["a"])
    state.set(make.endpoints("a", change=1))
    delta.push()
    (reply,) = delta.delta(EDS, subscribe=["b"], nonce=first.nonce)
    assert names(reply) == ["b"]
    assert not delta.received.stale


def test_a_nonce_of_another_stream_is_counted_and_does_no_harm(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    delta.delta(EDS, subscribe=["a"])
    (reply,) = delta.delta(EDS, subscribe=["b"], nonce="other-1")
    assert names(reply) == ["b"]
    assert delta.received.stale
    assert delta.subscription(EDS).nonce_acked == ""


def test_nack_is_not_answered_and_the_next_change_is_sent(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.listener("a"))
    (reply,) = delta.delta(LDS)
    assert delta.ack(reply, nack="no good") == []
    assert delta.subscription(LDS).nack.message == "no good"
    assert delta.push() == []
    state.set(make.listener("a", change=1))
    (reply,) = delta.push()
    assert names(reply) == ["a"]


@pytest.mark.parametrize("type_url", [CDS, EDS, LDS])
def test_a_client_is_sent_once_that_a_name_does_not_exist(
    delta: Core, state: State, make: Make, names: Names, type_url: str
) -> None:
    state.say_removed = False
    state.set(make.cluster("a"), make.endpoints("a"), make.listener("a"))
    (reply,) = delta.delta(type_url, subscribe=["a", "nonsense"])
    assert (names(reply), list(reply.removed_resources)) == (["a"], ["nonsense"])
    assert delta.ack(reply) == []
    (reply,) = delta.delta(type_url, subscribe=["other"])
    assert list(reply.removed_resources) == ["other"]
    assert delta.push() == []


def test_a_cluster_whose_endpoints_do_not_exist_has_that_sent_once_and_gets_them_later(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"))
    (clusters,) = delta.delta(CDS)
    delta.ack(clusters)
    (reply,) = delta.delta(EDS, subscribe=["a"])
    assert list(reply.removed_resources) == ["a"]
    assert delta.ack(reply) == []
    assert delta.push() == []
    state.set(make.endpoints("a"))
    (reply,) = delta.push()
    assert names(reply) == ["a"]


@pytest.mark.parametrize("type_url", [RDS, SDS, types.RUNTIME])
def test_clients_that_wait_for_a_name_are_not_sent_that_it_does_not_exist(
    delta: Core, state: State, type_url: str
) -> None:
    state.say_removed = False
    assert delta.delta(type_url, subscribe=["later"]) == []
    assert delta.push() == []


def test_no_removal_is_reported_where_the_generator_knows_only_part(
    delta: Core, state: State
) -> None:
    state.partial(changed=[], removed=[])
    assert delta.delta(EDS, subscribe=["perhaps"]) == []


def test_beside_a_wildcard_a_name_that_does_not_exist_is_sent_as_removed(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.listener("a"))
    (reply,) = delta.delta(LDS, subscribe=["*", "nonsense"])
    assert (names(reply), list(reply.removed_resources)) == (["a"], ["nonsense"])


def test_a_prefix_under_which_there_is_nothing_is_not_removed(delta: Core, state: State) -> None:
    state.say_removed = False
    assert delta.delta(EDS, subscribe=["x/*"]) == []


def test_a_generator_may_say_that_a_name_does_not_exist(delta: Core) -> None:
    (reply,) = delta.delta(RDS, subscribe=["nonsense"])
    assert list(reply.removed_resources) == ["nonsense"]
    assert delta.push() == []


def test_a_missing_name_is_sent_when_it_is_created(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    delta.delta(RDS, subscribe=["later"])
    state.set(make.route("later"))
    (reply,) = delta.push()
    assert names(reply) == ["later"]


def test_explicit_wildcard_and_names_and_what_is_left_after_it(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(*(make.listener(name) for name in "abc"))
    replies = delta.delta(LDS, subscribe=["*", "a"])
    assert [names(reply) for reply in replies] == [["a", "b", "c"]]
    assert delta.delta(LDS, unsubscribe=["*"]) == []
    state.set(make.listener("a", change=1), make.listener("b", change=1))
    (reply,) = delta.push()
    assert names(reply) == ["a"]


def test_implicit_wildcard_stays_when_names_are_added(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.listener("a"))
    delta.delta(LDS)
    (reply,) = delta.delta(LDS, subscribe=["a"])
    assert names(reply) == ["a"]
    state.set(make.listener("b"))
    (reply,) = delta.push()
    assert names(reply) == ["b"]


def test_a_name_given_up_under_a_wildcard_is_said_to_be_there_or_gone(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.listener("a"), make.listener("b"))
    delta.delta(LDS, subscribe=["*", "a", "b"])
    state.drop(LDS, "b")
    there, gone = delta.delta(LDS, unsubscribe=["a"]) + delta.delta(LDS, unsubscribe=["b"])
    assert (names(there), list(there.removed_resources)) == (["a"], [])
    assert (names(gone), list(gone.removed_resources)) == ([], ["b"])


def test_giving_up_everything_is_not_a_wildcard(delta: Core, state: State, make: Make) -> None:
    state.set(make.cluster("a", eds=False))
    (reply,) = delta.delta(CDS, subscribe=["a"])
    assert delta.delta(CDS, unsubscribe=["a"]) == []
    assert delta.ack(reply) == []
    state.set(make.cluster("a", eds=False, change=1))
    assert delta.push() == []


def test_endpoints_follow_a_changed_cluster_once(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    """Envoy warms the changed cluster, and a delta Envoy asks for nothing."""
    state.set(make.cluster("a"), make.cluster("b"), make.endpoints("a"), make.endpoints("b"))
    delta.delta(CDS)
    delta.delta(EDS, subscribe=["a", "b"])
    state.set(make.cluster("a", change=1))
    clusters, endpoints = delta.push()
    assert (clusters.type_url, names(clusters)) == (CDS, ["a"])
    assert (endpoints.type_url, names(endpoints)) == (EDS, ["a"])
    assert delta.ack(clusters) == delta.ack(endpoints) == []
    assert delta.push() == []


def test_endpoints_follow_a_cluster_changed_while_the_client_was_away(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    """The client says that it has the endpoints, and warms the cluster all the same."""
    state.set(make.cluster("a"), make.cluster("b"), make.endpoints("a"), make.endpoints("b"))
    (clusters,) = delta.delta(CDS)
    (endpoints,) = delta.delta(EDS, subscribe=["a", "b"])
    delta.reset()
    state.set(make.cluster("a", change=1))
    cluster_versions = {resource.name: resource.version for resource in clusters.resources}
    endpoint_versions = {resource.name: resource.version for resource in endpoints.resources}
    (clusters,) = delta.delta(CDS, initial_versions=cluster_versions)
    assert names(clusters) == ["a"]
    (endpoints,) = delta.delta(EDS, subscribe=["a", "b"], initial_versions=endpoint_versions)
    assert "a" in names(endpoints)


def versions_in(reply: Any) -> dict[str, str]:
    return {resource.name: resource.version for resource in reply.resources}


def test_endpoints_a_client_says_it_has_are_not_sent_after_a_reconnect(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"), make.endpoints("a"), make.endpoints("b"))
    (clusters,) = delta.delta(CDS)
    delta.ack(clusters)
    (endpoints,) = delta.delta(EDS, subscribe=["a", "b"])
    delta.ack(endpoints)
    delta.reset()
    state.set(make.endpoints("b", change=1))
    (reply,) = delta.delta(CDS, initial_versions=versions_in(clusters))
    assert list(reply.resources) == []
    (reply,) = delta.delta(EDS, subscribe=["a", "b"], initial_versions=versions_in(endpoints))
    assert names(reply) == ["b"]
    delta.reset()
    versions = versions_in(endpoints) | versions_in(reply)
    assert delta.delta(EDS, subscribe=["a", "b"], initial_versions=versions) == []


@pytest.mark.parametrize("lost", ["before the endpoints", "before they were accepted"])
def test_endpoints_that_a_broken_stream_may_have_lost_are_sent_on_the_next(
    delta: Core, state: State, make: Make, names: Names, lost: str
) -> None:
    """The changed cluster has arrived, and Envoy warms it; it does not tell the server."""
    state.set(make.cluster("a"), make.cluster("b"), make.endpoints("a"), make.endpoints("b"))
    (clusters,) = delta.delta(CDS)
    delta.ack(clusters)
    (endpoints,) = delta.delta(EDS, subscribe=["a", "b"])
    delta.ack(endpoints)
    state.set(make.cluster("a", change=1))
    pushed = delta.stream.push(delta.source)
    next(pushed)
    if lost == "before they were accepted":
        next(pushed)
    delta.reset()
    versions = versions_in(clusters) | {"a": state.resources[CDS]["a"].version}
    (reply,) = delta.delta(CDS, initial_versions=versions)
    assert list(reply.resources) == []
    (reply,) = delta.delta(EDS, subscribe=["a", "b"], initial_versions=versions_in(endpoints))
    assert names(reply) == ["a"]


def test_endpoints_of_clusters_that_went_are_not_awaited_for_ever(
    delta: Core, state: State, make: Make
) -> None:
    for number in range(10):
        state.set(make.cluster(f"c{number}"))
        replies = delta.push() if number else delta.delta(CDS)
        for reply in replies:
            delta.ack(reply)
        state.drop(CDS, f"c{number}")
        for reply in delta.push():
            delta.ack(reply)
    assert not delta.stream.warming


def test_removed_clusters_leave_last_and_in_reverse(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("old"), make.endpoints("old"), make.listener("old"), make.route("r"))
    for reply in (
        *delta.delta(CDS),
        *delta.delta(EDS, subscribe=["old"]),
        *delta.delta(LDS),
        *delta.delta(RDS, subscribe=["r"]),
    ):
        delta.ack(reply)
    for type_url in (CDS, EDS, LDS):
        state.drop(type_url, "old")
    state.set(make.cluster("new", eds=False), make.route("r", change=1))
    replies = delta.push()
    assert [(r.type_url, names(r), list(r.removed_resources)) for r in replies] == [
        (CDS, ["new"], []),
        (RDS, ["r"], []),
        (LDS, [], ["old"]),
    ]
    removed = [reply for sent in replies for reply in delta.ack(sent)]
    assert [(r.type_url, list(r.removed_resources)) for r in removed] == [
        (EDS, ["old"]),
        (CDS, ["old"]),
    ]


def test_a_generator_that_says_only_what_changed_of_everything(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    state.set(*(make.listener(name) for name in "abc"))
    delta.delta(LDS)
    state.partial(changed=[make.listener("b", change=1)], removed=["c"])
    changed, gone = delta.push()
    assert (names(changed), list(gone.removed_resources)) == (["b"], ["c"])


def test_everything_below_a_prefix(delta: Core, state: State, make: Make, names: Names) -> None:
    state.set(make.route("x/a"), make.route("x/b"), make.route("y/a"))
    (reply,) = delta.delta(RDS, subscribe=["x/*"])
    assert names(reply) == ["x/a", "x/b"]
    state.set(make.route("x/c"), make.route("y/c"))
    (reply,) = delta.push()
    assert names(reply) == ["x/c"]


def test_routes_wait_until_new_clusters_have_their_endpoints(
    delta: Core, state: State, make: Make, names: Names
) -> None:
    """Before that, a route to one is a route to nowhere."""
    state.set(make.cluster("old"), make.endpoints("old"), make.route("r"))
    for reply in (
        *delta.delta(CDS),
        *delta.delta(EDS, subscribe=["old"]),
        *delta.delta(RDS, subscribe=["r"]),
    ):
        delta.ack(reply)
    state.set(make.cluster("new"), make.endpoints("new"), make.route("r", change=1))
    (clusters,) = delta.push()
    assert names(clusters) == ["new"]
    assert delta.ack(clusters) == []
    endpoints, routes = delta.delta(EDS, subscribe=["new"])
    assert (endpoints.type_url, routes.type_url) == (EDS, RDS)


def test_routes_do_not_wait_for_ever(delta: Core, state: State, make: Make) -> None:
    state.set(make.cluster("old"), make.endpoints("old"), make.route("r"))
    delta.delta(CDS)
    delta.delta(EDS, subscribe=["old"])
    delta.delta(RDS, subscribe=["r"])
    state.set(make.cluster("new"), make.route("r", change=1))
    assert [reply.type_url for reply in delta.push()] == [CDS]
    delta.now = delta.stream.next_due_at()
    assert [reply.type_url for reply in delta.go_on()] == [RDS]
    assert delta.stream.next_due_at() is None


def test_a_cluster_that_never_got_endpoints_leaves_at_once(
    delta: Core, state: State, make: Make
) -> None:
    """It could not be used, and the client would go on warming it."""
    state.set(make.cluster("steady"), make.endpoints("steady"), make.listener("l"))
    delta.delta(CDS)
    delta.delta(EDS, subscribe=["steady"])
    state.set(make.cluster("brief"))
    delta.push()
    state.drop(CDS, "brief")
    (reply,) = delta.push()
    assert list(reply.removed_resources) == ["brief"]
    assert delta.stream.next_due_at() is None
