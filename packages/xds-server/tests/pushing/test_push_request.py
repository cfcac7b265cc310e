"""A push request and its merging."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xds_server import ConfigKey, PushRequest

KEYS = [ConfigKey("Service", name, "ns") for name in "abc"]

requests = st.builds(
    PushRequest,
    full=st.booleans(),
    configs_updated=st.frozensets(st.sampled_from(KEYS)),
    reasons=st.lists(st.sampled_from(["config", "endpoint"]), unique=True).map(tuple),
    started=st.floats(0, 100),
)


def test_merge_keeps_the_oldest_start_and_every_change() -> None:
    a = PushRequest(
        full=False, configs_updated=frozenset(KEYS[:1]), reasons=("endpoint",), started=2.0
    )
    b = PushRequest(
        full=True, configs_updated=frozenset(KEYS[1:]), reasons=("config", "endpoint"), started=1.0
    )
    assert a.merge(b) == PushRequest(
        full=True, configs_updated=frozenset(KEYS), reasons=("endpoint", "config"), started=1.0
    )


def test_everything_absorbs_what_is_named() -> None:
    named = PushRequest(configs_updated=frozenset(KEYS))
    assert named.merge(PushRequest()).configs_updated == frozenset()
    assert PushRequest().merge(named).configs_updated == frozenset()


@given(requests, requests, requests)
def test_the_order_of_merging_matters_to_reasons_only(
    a: PushRequest, b: PushRequest, c: PushRequest
) -> None:
    left, right = a.merge(b).merge(c), c.merge(b.merge(a))
    assert (left.full, left.configs_updated, left.started) == (
        right.full,
        right.configs_updated,
        right.started,
    )
    assert set(left.reasons) == set(right.reasons) == {*a.reasons, *b.reasons, *c.reasons}
