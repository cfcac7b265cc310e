"""Localities: shares, and who takes over from whom."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_config.plan._client import Client, Location
from envoy_config.plan._locality import (
    NETWORK,
    NO_PREFERENCE,
    REGION,
    ZONE,
    Preference,
    arrange,
    endpoint_weight,
    label_priority,
    locality_matches,
    locality_priority,
    region_priority,
)
from istio_config.kinds.destination_rule import Distribute, Failover
from mesh_model import Endpoint


def endpoint(locality: str, *, weight: int = 0, **labels: str) -> Endpoint:
    return Endpoint(
        address="10.0.0.1",
        ports=(),
        namespace="b",
        locality=locality,
        weight=weight,
        labels=tuple(sorted(labels.items())),
    )


def client(locality: str, **labels: str) -> Client:
    return Client(location=Location(locality=locality), labels=tuple(sorted(labels.items())))


_LOCALITIES = st.sampled_from(("", "r1", "r1/z1", "r1/z1/s1", "r1/z1/s2", "r1/z2", "r2/z1", "r3"))
_ENDPOINTS = st.lists(
    st.builds(
        endpoint,
        _LOCALITIES,
        weight=st.integers(0, 2**32 - 1),
        version=st.sampled_from(("v1", "v2")),
    ),
    max_size=8,
)
_PREFERENCES = st.sampled_from(
    (
        NO_PREFERENCE,
        Preference(by_locality=True),
        Preference(by_locality=True, failover=(Failover(from_="r1", to="r2"),)),
        Preference(by_region=True, failover=(Failover(from_="r1", to="r3"),)),
        Preference(failover_priority=("version", REGION)),
        Preference(failover_priority=("version=v2", ZONE), by_locality=True),
    )
)


@given(endpoints=_ENDPOINTS, wanted=_PREFERENCES, place=_LOCALITIES)
def test_priorities_have_no_gaps_and_no_endpoint_is_lost(
    endpoints: list[Endpoint], wanted: Preference, place: str
) -> None:
    groups = arrange(endpoints, wanted, client(place, version="v1"))

    assert {each.priority for each in groups} == set(range(len({g.priority for g in groups})))
    assert Counter(e for group in groups for e in group.endpoints) == Counter(endpoints)
    assert all(each.locality == group.locality for group in groups for each in group.endpoints)
    for group in groups:
        assert group.weight == min(sum(map(endpoint_weight, group.endpoints)), 2**32 - 1)
    assert len({(each.locality, each.priority) for each in groups}) == len(groups)


@given(endpoints=_ENDPOINTS)
def test_shares_are_given_whole_to_localities_that_have_one(endpoints: list[Endpoint]) -> None:
    shares = {"r1/z1": 70, "r1/z2": 20, "r2": 10}
    wanted = Preference(distribute=(Distribute(from_="r1/*", to=shares),))

    groups = arrange(endpoints, wanted, client("r1/z9"))

    for pattern, share in shares.items():
        weights = [each.weight for each in groups if locality_matches(pattern, each.locality)]
        assert not weights or share <= sum(weights) < share + len(weights)
    assert all(
        any(locality_matches(pattern, group.locality) for pattern in shares) for group in groups
    )
    assert arrange(endpoints, wanted, client("r2")) == arrange(endpoints, NO_PREFERENCE, client(""))


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ("r1/z1/s1", "r1/z1/s1", 0),
        ("r1/z1/s1", "r1/z1/s2", 1),
        ("r1/z1/s1", "r1/z2/s1", 2),
        ("r1/z1/s1", "r2/z1/s1", 3),
        ("", "r1", 3),
        ("", "", 0),
    ],
)
def test_a_locality_is_the_further_the_earlier_it_differs(
    own: str, other: str, expected: int
) -> None:
    assert locality_priority(own, other) == expected


def test_a_region_that_takes_over_comes_before_other_regions() -> None:
    failover = (Failover(from_="r1", to="r2"),)
    assert [locality_priority("r1", each, failover) for each in ("r2", "r3")] == [3, 4]
    assert [locality_priority("r9", each, failover) for each in ("r2", "r3")] == [3, 3]
    assert [region_priority("r1/z1", each, failover) for each in ("r1/z2", "r2", "r3")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "endpoint_labels", "expected"),
    [
        (("a", "b"), {"a": "1", "b": "2"}, 0),
        (("a", "b"), {"a": "1", "b": "x"}, 1),
        (("a", "b"), {"a": "x", "b": "2"}, 2),
        (("a=x",), {"a": "x"}, 0),
        (("a=x",), {"a": "1"}, 1),
        # Another network comes after all of the client's own, and is compared further.
        ((NETWORK, "a"), {NETWORK: "n2", "a": "1"}, 2),
        ((NETWORK, "a"), {NETWORK: "n2", "a": "x"}, 3),
        ((NETWORK, "a"), {NETWORK: "n1", "a": "x"}, 1),
    ],
)
def test_endpoints_come_in_the_order_in_which_they_first_differ(
    labels: tuple[str, ...], endpoint_labels: dict[str, str], expected: int
) -> None:
    own = {"a": "1", "b": "2", NETWORK: "n1"}
    assert label_priority(labels, own, endpoint_labels) == expected


@pytest.mark.parametrize(
    ("pattern", "locality", "expected"),
    [
        ("*", "r1/z1", True),
        ("r1", "r1/z1/s1", True),
        ("r1/*", "r1/z1/s1", True),
        ("r1/z1/*", "r1/z2", False),
        ("r1/z1/s1", "r1/z1", False),
        ("r1/z1", "r2/z1", False),
    ],
)
def test_missing_parts_of_a_locality_mean_any(pattern: str, locality: str, expected: bool) -> None:  # noqa: FBT001
    assert locality_matches(pattern, locality) is expected
