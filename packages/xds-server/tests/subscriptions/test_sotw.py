"""The state-of-the-world rules, one by one, on the core alone."""

from __future__ import annotations

import pytest
from envoy.config.endpoint.v3 import endpoint_pb2

from xds_server import Resource
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
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"))
    (reply,) = sotw.request(CDS)
    assert names(reply) == ["a"]
    assert reply.type_url == CDS
    assert reply.version_info == "v1"
    assert reply.control_plane.identifier == "test"
    assert sotw.ack(reply) == []
    assert sotw.subscription(CDS).nonce_acked == reply.nonce
    assert sotw.subscription(CDS).version_acked == "v1"


def test_nothing_at_all_is_an_answer_too(sotw: Core) -> None:
    (reply,) = sotw.request(CDS)
    assert list(reply.resources) == []


def test_ack_with_the_names_in_another_order_is_not_answered(
    sotw: Core, state: State, make: Make
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (reply,) = sotw.request(EDS, "a", "b")
    assert sotw.ack(reply, "b", "a") == []


def test_nack_is_not_answered_and_leaves_the_acked_version(
    sotw: Core, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    (first,) = sotw.request(CDS)
    sotw.ack(first)
    sotw.version = "v2"
    state.set(make.cluster("a", change=1))
    (second,) = sotw.push()
    assert sotw.ack(second, nack="no good") == []
    assert sotw.received.refused.message == "no good"
    subscription = sotw.subscription(CDS)
    assert (subscription.version_acked, subscription.version_sent) == ("v1", "v2")
    assert subscription.nack.message == "no good"
    assert subscription.nack.count == 1


def test_nack_is_known_by_its_error_whatever_version_it_names(
    sotw: Core, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    (reply,) = sotw.request(CDS)
    assert sotw.ack(reply, nack="x") == []
    assert sotw.subscription(CDS).nonce_acked == ""
    assert sotw.subscription(CDS).nack.version == "v1"


def test_after_a_nack_the_same_is_not_sent_again_but_the_next_change_is(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"))
    (reply,) = sotw.request(CDS)
    sotw.ack(reply, nack="x")
    assert sotw.push() == []
    state.set(make.cluster("a", change=1))
    (reply,) = sotw.push()
    assert names(reply) == ["a"]
    sotw.ack(reply)
    assert sotw.subscription(CDS).nack is None
    assert sotw.subscription(CDS).nacks == 1


def test_refusals_in_a_row_are_one_that_goes_on(sotw: Core, state: State, make: Make) -> None:
    for change in range(3):
        sotw.now = float(change)
        state.set(make.cluster("a", change=change))
        (reply,) = sotw.push() if change else sotw.request(CDS)
        sotw.ack(reply, nack=f"refusal {change}")
    nack = sotw.subscription(CDS).nack
    assert (nack.count, nack.since, nack.last, nack.message) == (3, 0.0, 2.0, "refusal 2")


def test_names_that_change_along_with_a_nack_are_not_lost(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (reply,) = sotw.request(EDS, "a")
    (more,) = sotw.ack(reply, "a", "b", nack="x")
    assert names(more) == ["b"]


def test_stale_nonce_is_ignored_and_the_watch_stays(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (first,) = sotw.request(EDS, "a")
    state.set(make.endpoints("a", change=1))
    (second,) = sotw.push()
    assert sotw.ack(first, "a", "b") == []
    assert sotw.received.stale
    assert sotw.subscription(EDS).names == {"a"}
    # What it wanted is said again with the answer to the newer response.
    (third,) = sotw.ack(second, "a", "b")
    assert names(third) == ["b"]


def test_what_a_stale_request_gave_up_is_sent_again_when_it_is_wanted_again(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    """Three requests cross one response: the name was dropped in between, and with it the rest."""
    state.set(make.endpoints("a"), make.endpoints("b"))
    (first,) = sotw.request(EDS, "a")
    (second,) = sotw.ack(first, "a", "b")
    assert sotw.ack(first, "b") == []
    assert sotw.ack(first, "a") == []
    (third,) = sotw.ack(second, "a")
    assert names(third) == ["a"]


def test_reconnect_with_an_old_nonce_is_a_new_watch(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"), make.endpoints("a"))
    (clusters,) = sotw.request(CDS)
    (endpoints,) = sotw.request(EDS, "a")
    sotw.reset()
    (resend,) = sotw.ack(clusters)
    assert names(resend) == ["a"]
    (resend,) = sotw.ack(endpoints, "a")
    assert names(resend) == ["a"]
    assert resend.nonce != endpoints.nonce


def test_an_old_nonce_stays_good_until_there_is_a_new_one(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    """After a reconnect, to a watch of nothing that exists, there is no response with a nonce."""
    state.set(make.endpoints("a"))
    assert sotw.request(EDS, "missing", nonce="from another stream") == []
    (reply,) = sotw.request(EDS, "a", nonce="from another stream")
    assert names(reply) == ["a"]


def test_a_watch_begun_anew_without_an_answer_goes_on_with_the_old_nonce(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    """The second request crossed the first response; nothing of what it names exists."""
    state.set(make.endpoints("a"))
    (first,) = sotw.request(EDS, "a")
    assert sotw.request(EDS, "b") == []
    assert sotw.ack(first, "b") == []
    (resend,) = sotw.ack(first, "a")
    assert names(resend) == ["a"]


def test_nonces_differ_between_streams_and_responses(sotw: Core, state: State, make: Make) -> None:
    state.set(make.cluster("a"), make.listener("l"))
    seen: set[str] = set()
    for _ in range(3):
        seen.update(reply.nonce for reply in sotw.request(CDS) + sotw.request(LDS))
        sotw.reset()
    assert len(seen) == 6


def test_versions_are_equal_for_all_types_of_one_push(sotw: Core, state: State, make: Make) -> None:
    state.set(make.cluster("a"), make.listener("l"))
    sotw.request(CDS)
    sotw.request(LDS)
    sotw.version = "v2"
    state.set(make.cluster("a", change=1), make.listener("l", change=1))
    replies = sotw.push()
    assert {reply.version_info for reply in replies} == {"v2"}
    assert len({reply.nonce for reply in replies}) == len(replies) == 2


def test_added_names_get_only_the_added(sotw: Core, state: State, make: Make, names: Names) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (reply,) = sotw.request(EDS, "a")
    (reply,) = sotw.ack(reply, "a", "b")
    assert names(reply) == ["b"]


def test_changed_name_gets_only_the_new_one(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (reply,) = sotw.request(EDS, "a")
    (reply,) = sotw.ack(reply, "b")
    assert names(reply) == ["b"]
    state.set(make.endpoints("a", change=1))
    assert sotw.push() == []


def test_removed_names_get_no_answer(sotw: Core, state: State, make: Make) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (reply,) = sotw.request(EDS, "a", "b")
    assert sotw.ack(reply, "a") == []
    assert sotw.subscription(EDS).names == {"a"}


def test_a_name_given_up_and_wanted_again_is_sent_again(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.route("a"), make.route("b"))
    (reply,) = sotw.request(RDS, "a", "b")
    sotw.ack(reply, "b")
    (reply,) = sotw.ack(reply, "a", "b")
    assert names(reply) == ["a"]


@pytest.mark.parametrize("type_url", [EDS, RDS, SDS])
def test_no_names_of_a_named_type_end_the_watch(
    sotw: Core, state: State, make: Make, type_url: str
) -> None:
    state.set(make.endpoints("a"), make.route("a"))
    sotw.request(type_url, "a")
    assert sotw.request(type_url) == []
    state.set(make.endpoints("a", change=1), make.route("a", change=1))
    assert sotw.push() == []


def test_a_missing_name_is_silent_and_its_later_creation_is_not(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    assert sotw.request(RDS, "later") == []
    assert sotw.push() == []
    state.set(make.route("later"))
    (reply,) = sotw.push()
    assert names(reply) == ["later"]


def test_unknown_names_leave_the_stream_usable(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.route("a"))
    (reply,) = sotw.request(RDS, "a", "nonsense")
    assert names(reply) == ["a"]
    sotw.ack(reply, "a", "nonsense", nack="x")
    state.set(make.route("a", change=1))
    (reply,) = sotw.push()
    assert names(reply) == ["a"]


def test_a_request_that_names_part_is_answered_with_that_part(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(*(make.cluster(name) for name in "abc"))
    (reply,) = sotw.request(CDS, "a", "c")
    assert names(reply) == ["a", "c"]


def test_named_clusters_are_answered_in_full_as_absence_means_removal(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(*(make.cluster(name) for name in "abc"))
    (reply,) = sotw.request(CDS, "a")
    (reply,) = sotw.ack(reply, "a", "b")
    assert names(reply) == ["a", "b"]


@pytest.mark.parametrize("type_url", [CDS, LDS])
@pytest.mark.parametrize("exists", [False, True])
def test_no_names_after_some_were_given_end_the_watch_even_before_an_answer(
    sotw: Core, state: State, make: Make, names: Names, type_url: str, *, exists: bool
) -> None:
    """No names mean "all" only if none were ever given on the stream."""
    state.set(make.cluster("a"), make.listener("a"))
    sotw.request(type_url, "a" if exists else "nonsense")
    assert sotw.request(type_url) == []
    state.set(make.cluster("b"), make.listener("b"))
    assert sotw.push() == []
    (reply,) = sotw.request(type_url, "b")
    assert names(reply) == ["b"]
    (reply,) = sotw.request(type_url, "*", nonce=reply.nonce)
    assert names(reply) == ["a", "b"]


def test_explicit_wildcard_and_what_is_left_after_it(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(*(make.cluster(name, eds=False) for name in "abc"))
    (reply,) = sotw.request(CDS, "*", "a")
    assert names(reply) == ["a", "b", "c"]
    assert sotw.ack(reply, "a") == []
    state.set(make.cluster("b", eds=False, change=1))
    assert sotw.push() == []


def test_no_names_after_some_mean_none(sotw: Core, state: State, make: Make) -> None:
    state.set(make.cluster("a", eds=False))
    (reply,) = sotw.request(CDS, "a")
    assert sotw.ack(reply) == []
    state.set(make.cluster("a", eds=False, change=1))
    assert sotw.push() == []


def test_an_unchanged_push_sends_nothing(sotw: Core, state: State, make: Make) -> None:
    state.set(make.cluster("a"), make.endpoints("a"), make.listener("l"))
    sotw.request(CDS)
    sotw.request(EDS, "a")
    sotw.request(LDS)
    assert sotw.push() == []


def test_an_endpoint_change_sends_that_endpoint_only(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"), make.endpoints("a"), make.endpoints("b"))
    sotw.request(CDS)
    sotw.request(EDS, "a", "b")
    state.set(make.endpoints("b", change=1))
    (reply,) = sotw.push(incremental=True)
    assert (reply.type_url, names(reply)) == (EDS, ["b"])


def test_endpoints_that_empty_and_fill_again_are_sent_each_time(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("a"), make.endpoints("a"), make.endpoints("b"))
    sotw.request(CDS)
    sotw.request(EDS, "a", "b")
    empty = Resource.pack(endpoint_pb2.ClusterLoadAssignment(cluster_name="b"), name="b")
    for now in (empty, make.endpoints("b"), empty):
        state.set(now)
        (reply,) = sotw.push(incremental=True)
        assert names(reply) == ["b"]
        assert reply.resources[0].value == now.body
        assert sotw.push(incremental=True) == []


def test_what_is_given_up_before_its_push_is_not_sent(sotw: Core, state: State, make: Make) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    (first,) = sotw.request(EDS, "a", "b")
    state.set(make.endpoints("b", change=1))
    assert sotw.ack(first, "a") == []
    assert sotw.push() == []


def test_a_push_comes_in_the_order_that_breaks_nothing(
    sotw: Core, state: State, make: Make
) -> None:
    for change in range(2):
        state.set(
            make.cluster("a", change=change),
            make.endpoints("a", change=change),
            make.listener("l", change=change),
            make.route("r", change=change),
        )
        if change:
            assert [reply.type_url for reply in sotw.push()] == [CDS, EDS, LDS, RDS]
        else:
            sotw.request(RDS, "r")
            sotw.request(LDS)
            sotw.request(EDS, "a")
            sotw.request(CDS)


def test_types_that_no_client_watches_are_not_sent(sotw: Core, state: State, make: Make) -> None:
    state.set(make.cluster("a"), make.listener("l"))
    sotw.request(LDS)
    state.set(make.cluster("a", change=1), make.listener("l", change=1))
    assert [reply.type_url for reply in sotw.push()] == [LDS]


def test_endpoints_follow_a_changed_cluster_once(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    """Envoy warms the changed cluster, and re-sends what looks like an ACK."""
    state.set(make.cluster("a"), make.cluster("b"), make.endpoints("a"), make.endpoints("b"))
    sotw.request(CDS)
    (endpoints,) = sotw.request(EDS, "a", "b")
    sotw.ack(endpoints, "a", "b")
    state.set(make.cluster("a", change=1))
    clusters, endpoints = sotw.push()
    assert (clusters.type_url, endpoints.type_url) == (CDS, EDS)
    assert names(endpoints) == ["a"]
    sotw.ack(clusters)
    assert sotw.ack(endpoints, "a", "b") == []
    assert sotw.ack(endpoints, "a", "b") == []


def test_endpoints_follow_under_the_name_the_cluster_gives_them(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    cluster = make.cluster("a", service_name="shard-7")
    state.set(cluster, make.endpoints("shard-7"))
    sotw.request(EDS, "shard-7")
    replies = sotw.request(CDS)
    assert [(reply.type_url, names(reply)) for reply in replies] == [
        (CDS, ["a"]),
        (EDS, ["shard-7"]),
    ]


def test_endpoints_do_not_follow_clusters_that_have_none(
    sotw: Core, state: State, make: Make
) -> None:
    state.set(make.cluster("a", eds=False), make.endpoints("a"))
    sotw.request(CDS)
    sotw.request(EDS, "a")
    state.set(make.cluster("a", eds=False, change=1))
    assert [reply.type_url for reply in sotw.push()] == [CDS]


def test_a_removed_cluster_stays_until_the_routes_to_it_are_replaced(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("old", eds=False), make.route("r"))
    (clusters,) = sotw.request(CDS)
    (routes,) = sotw.request(RDS, "r")
    sotw.ack(clusters)
    sotw.ack(routes, "r")
    state.drop(CDS, "old")
    state.set(make.cluster("new", eds=False), make.route("r", change=1))
    clusters, routes = sotw.push()
    assert names(clusters) == ["new", "old"]
    assert sotw.ack(clusters) == []
    (without,) = sotw.ack(routes, "r")
    assert names(without) == ["new"]
    assert sotw.ack(without) == []


def test_a_removed_cluster_does_not_stay_for_ever(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(make.cluster("old", eds=False), make.listener("l"))
    sotw.request(CDS)
    sotw.request(LDS)
    state.drop(CDS, "old")
    assert sotw.push() == []  # Nothing was ever acked.
    assert sotw.removals() == []
    sotw.now = sotw.stream.next_due_at()
    (reply,) = sotw.removals()
    assert names(reply) == []
    assert sotw.stream.next_due_at() is None


def test_a_removed_cluster_that_comes_back_never_left(sotw: Core, state: State, make: Make) -> None:
    old = make.cluster("old", eds=False)
    state.set(old, make.listener("l"))
    sotw.request(CDS)
    sotw.request(LDS)
    state.drop(CDS, "old")
    assert sotw.push() == []
    state.set(old)
    assert sotw.push() == []
    assert sotw.stream.next_due_at() is None


def test_a_generator_that_says_only_what_changed_of_everything(
    sotw: Core, state: State, make: Make, names: Names
) -> None:
    state.set(*(make.cluster(name, eds=False) for name in "abc"))
    (reply,) = sotw.request(CDS)
    sotw.ack(reply)
    state.partial(changed=[make.cluster("b", eds=False, change=1)], removed=["c"])
    (full,) = sotw.push()
    assert names(full) == ["a", "b", "c"]
    (without,) = sotw.ack(full)
    assert names(without) == ["a", "b"]


def test_unless_held_a_push_does_not_wait_for_the_ack(sotw: Core, state: State, make: Make) -> None:
    state.set(make.listener("l"))
    sotw.request(LDS)
    for change in (1, 2):
        state.set(make.listener("l", change=change))
        (reply,) = sotw.push()
        assert reply.resources[0].value == state.resources[LDS]["l"].body


def test_held_until_ack_the_next_push_waits_for_it(sotw: Core, state: State, make: Make) -> None:
    sotw.hold_until_ack_s = 15.0
    sotw.reset()
    state.set(make.listener("l"))
    (first,) = sotw.request(LDS)
    state.set(make.listener("l", change=1))
    assert sotw.push() == []
    state.set(make.listener("l", change=2))
    (second,) = sotw.ack(first)
    assert second.resources[0].value == state.resources[LDS]["l"].body
    state.set(make.listener("l", change=3))
    assert sotw.push() == []
    sotw.now = sotw.stream.next_due_at()
    assert len(sotw.go_on()) == 1


def test_names_that_change_after_a_nack_do_not_accept_what_was_refused(
    sotw: Core, state: State, make: Make
) -> None:
    state.set(make.listener("l"))
    (first,) = sotw.request(LDS, "l")
    sotw.ack(first, "l", nack="no")
    sotw.request(LDS, "l", "m", nonce=first.nonce, version="")
    assert sotw.subscription(LDS).nack is not None
    sotw.request(LDS, "l", "m", nonce=first.nonce, version=first.version_info)
    assert sotw.subscription(LDS).nack is not None, "another response has come since"
