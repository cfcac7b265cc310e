"""A push request and its merging."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xds_server import ConfigKey, PushRequest

KEYS = [ConfigKey("Service", name, "ns") for name in "abc"]

requests = st.builds(
    PushRequest,
    incremental=st.booleans(),
    configs_updated=st.frozensets(st.sampled_from(KEYS)),
    reasons=st.lists(st.sampled_from(["config", "endpoint"]), unique=True).map(tuple),
    started=st.floats(0, 100),
)


def test_merge_keeps_the_oldest_start_and_every_change() -> None:
    a = PushRequest(
        incremental=True, configs_updated=frozenset(KEYS[:1]), triggers=("endpoint",), started=2.0
    )
    b = PushRequest(
        configs_updated=frozenset(KEYS[1:]), triggers=("config", "endpoint"), started=1.0
    )
    assert a.merge(b) == PushRequest(
        configs_updated=frozenset(KEYS), triggers=("endpoint", "config"), started=1.0
    )


def test_everything_absorbs_what_is_named() -> None:
    named = PushRequest(configs_updated=frozenset(KEYS))
    assert named.merge(PushRequest()).configs_updated == frozenset()
    assert PushRequest().merge(named).configs_updated == frozenset()


@given(requests, requests, requests)
def test_only_the_order_of_reasons_depends_on_the_order_of_merging(
    a: PushRequest, b: PushRequest, c: PushRequest
) -> None:
    left, right = a.merge(b).merge(c), c.merge(b.merge(a))
    assert (left.incremental, left.configs_updated, left.started) == (
        right.incremental,
        right.configs_updated,
        right.started,
    )
    assert set(left.triggers) == set(right.triggers) == {*a.triggers, *b.triggers, *c.triggers}
    assert set(left.described_reasons()) == set(right.described_reasons())


def test_reasons_are_the_config_keys_unless_others_are_given() -> None:
    keys = frozenset({ConfigKey("Service", "web", "shop"), ConfigKey("Snapshot", "edge", "")})
    by_keys = PushRequest(configs_updated=keys, triggers=("service",))
    assert by_keys.described_reasons() == ("Service/shop/web", "Snapshot/edge")
    assert PushRequest(triggers=("global",)).described_reasons() == ("global",)
    assert PushRequest().described_reasons() == ()
    given = PushRequest(configs_updated=keys, reasons=("web.yaml was edited",))
    assert given.described_reasons() == ("web.yaml was edited",)


def test_merged_reasons_are_kept_once_also_when_everything_may_have_changed() -> None:
    named = PushRequest(configs_updated=frozenset(KEYS[:1]))
    edited = PushRequest(reasons=("mesh.yaml was edited",))
    merged = named.merge(edited).merge(named)
    assert merged.described_reasons() == (*named.described_reasons(), "mesh.yaml was edited")
    assert merged.configs_updated == frozenset()


def test_of_many_reasons_ten_are_named_and_how_many_more_there_are() -> None:
    many = frozenset(ConfigKey("Service", f"s{number:02}", "shop") for number in range(25))
    texts = PushRequest(configs_updated=many).described_reasons()
    assert texts == (*(f"Service/shop/s{number:02}" for number in range(10)), "and 15 more")
    merged = PushRequest(configs_updated=many).merge(PushRequest(triggers=("global",)))
    assert merged.described_reasons() == (*texts[:10], "and 16 more")
    (long,) = PushRequest(reasons=("x" * 10_000,)).described_reasons()
    assert len(long) == 256
