"""Merges of parts into messages, whatever the parts are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drawn_patches import VALUES
from envoy_config.patch._clusters import Cluster
from envoy_config.patch._merging import merge
from istio_config.envoy_api import find_type, message_of
from istio_config.kinds.envoy_filter import ApplyTo

CLUSTERS = st.sampled_from(VALUES[ApplyTo.CLUSTER])


def cluster(value: dict[str, Any]) -> Cluster:
    descriptor = find_type("envoy.config.cluster.v3.Cluster")
    assert descriptor is not None
    message = message_of(value, descriptor)
    assert isinstance(message, Cluster)
    return message


@given(whole=CLUSTERS, part=CLUSTERS)
def test_a_merge_with_lists_replaced_is_the_same_once_or_twice(
    whole: dict[str, Any], part: dict[str, Any]
) -> None:
    once = cluster(whole)
    merge(once, cluster(part), replaces_lists=True)
    twice = Cluster()
    twice.CopyFrom(once)
    merge(twice, cluster(part), replaces_lists=True)
    assert once == twice


@given(whole=CLUSTERS, part=CLUSTERS)
def test_a_merge_is_protobufs_own_but_for_values_that_overwrite(
    whole: dict[str, Any], part: dict[str, Any]
) -> None:
    mine, own = cluster(whole), cluster(whole)
    merge(mine, cluster(part))
    own.MergeFrom(cluster(part))
    if "connect_timeout" in part:
        own.connect_timeout.CopyFrom(cluster(part).connect_timeout)
    assert mine == own


def test_an_empty_part_changes_nothing_and_an_empty_choice_is_taken() -> None:
    before = cluster({"name": "a", "lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 11}})
    after = Cluster()
    after.CopyFrom(before)
    merge(after, cluster({}))
    assert after == before
    merge(after, cluster({"ring_hash_lb_config": {}}))
    assert after.WhichOneof("lb_config") == "ring_hash_lb_config"
