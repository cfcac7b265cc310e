"""The names of the clusters of some hosts, among all those that a client watches."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from envoy_config import parse_outbound_cluster
from envoy_config.context._cluster_names import ClusterNames


@given(
    st.frozensets(st.sampled_from([*"abc", "a.b", ""]), max_size=3),
    st.frozensets(
        st.builds(
            "{}|{}|{}|{}".format,
            st.sampled_from(["outbound", "inbound"]),
            st.sampled_from(["80", "81", "x"]),
            st.sampled_from(["", "v1"]),
            st.sampled_from([*"abc", "a.b", "", "a|b"]),
        )
        | st.sampled_from(["a", "", "|"]),
        max_size=100,
    ),
)
def test_clusters_of_hosts_are_found_among_sorted_names_as_among_all(
    hosts: frozenset[str], wanted: frozenset[str]
) -> None:
    expected = set()
    for name in wanted:
        parsed = parse_outbound_cluster(name)
        if parsed is not None and parsed.host in hosts:
            expected.add(name)

    assert ClusterNames().select(hosts, wanted) == expected


@given(
    st.lists(
        st.frozensets(st.integers(0, 40), min_size=20).map(
            lambda numbers: frozenset(f"outbound|80||s{number}" for number in numbers)
        ),
        min_size=1,
    )
)
def test_clusters_of_a_host_are_found_as_a_client_watches_others(
    watches: list[frozenset[str]],
) -> None:
    names = ClusterNames()
    for wanted in watches:
        for number in range(41):
            name = f"outbound|80||s{number}"
            assert names.select(frozenset({f"s{number}"}), wanted) == {name} & wanted


def test_a_watch_with_a_few_other_names_is_not_sorted_again() -> None:
    names = ClusterNames()
    wanted = frozenset(f"outbound|80||service-{number}" for number in range(100))
    names.select(frozenset({"service-1"}), wanted)
    wanted = (wanted - {"outbound|80||service-1"}) | {"outbound|80|v2|service-2"}
    assert names.select(frozenset({"service-1"}), wanted) == frozenset()
    assert len(names.select(frozenset({"service-2"}), wanted)) == 2
    assert names.sorted == 1


def test_the_names_of_a_watch_are_sorted_once_for_all_pushes_and_forgotten_with_it() -> None:
    names = ClusterNames()
    wanted = frozenset(f"outbound|80||service-{number}" for number in range(100))
    for number in range(5):
        host = f"service-{number}"
        assert names.select(frozenset({host}), wanted) == {f"outbound|80||{host}"}
    assert names.sorted == 1
    del wanted
    gc.collect()
    assert not names._by_host
