"""Resources with a time to live are not saved, and what prolongs one takes nothing away."""

from __future__ import annotations

from pathlib import Path

import pytest
from envoy.config.route.v3 import route_components_pb2
from envoy.service.discovery.v3 import discovery_pb2

from accepted import CLUSTER, OWNER, difference, everything, resource, saved_config
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, Dialect
from xds_proxy.protocol._resources import only_prolongs
from xds_proxy.saved._merging import Change, Merged, merge
from xds_proxy.saved._store import Store

VIRTUAL_HOST = "type.googleapis.com/envoy.config.route.v3.VirtualHost"


def with_ttl(name: str, *, body: bool, ttl_s: int = 5) -> discovery_pb2.Resource:
    wrapped = discovery_pb2.Resource(name=name, version="2")
    wrapped.ttl.seconds = ttl_s
    if body:
        wrapped.resource.Pack(resource(CLUSTER, name, "new"))
    return wrapped


def sent(dialect: Dialect, *resources: discovery_pb2.Resource) -> bytes:
    if dialect is DELTA:
        delta = discovery_pb2.DeltaDiscoveryResponse(type_url=CLUSTER, resources=resources)
        return bytes(delta.SerializeToString())
    whole = discovery_pb2.DiscoveryResponse(type_url=CLUSTER, version_info="2")
    for each in resources:
        whole.resources.add().Pack(each)
    return bytes(whole.SerializeToString())


def after(dialect: Dialect, *responses: bytes, replaces: bool = False) -> Merged:
    names: frozenset[str] = frozenset()
    changes = [Change(dialect, each, replaces, None, names) for each in responses]
    return merge({}, "", changes)


def before(dialect: Dialect) -> bytes:
    build = difference if dialect is DELTA else everything
    return build(CLUSTER, {"a": "old", "b": "old"})


@pytest.mark.parametrize("dialect", [DELTA, STATE_OF_THE_WORLD], ids=["delta", "whole"])
def test_what_prolongs_a_life_leaves_the_saved_bodies(dialect: Dialect) -> None:
    plain = after(dialect, before(dialect))
    for replaces in {False, dialect is not DELTA}:
        prolonged = after(
            dialect,
            before(dialect),
            sent(dialect, with_ttl("a", body=False)),
            replaces=replaces,
        )
        assert prolonged.resources == plain.resources
        assert prolonged.withheld == ()


@pytest.mark.parametrize("dialect", [DELTA, STATE_OF_THE_WORLD], ids=["delta", "whole"])
def test_a_resource_with_a_time_to_live_is_left_out(dialect: Dialect) -> None:
    found = after(dialect, before(dialect), sent(dialect, with_ttl("a", body=True)))
    assert set(found.resources) == {"b"}
    assert found.withheld == ("a",)
    again = after(
        dialect,
        before(dialect),
        sent(dialect, with_ttl("a", body=True)),
        sent(dialect, with_ttl("a", body=False)),
        before(dialect),
    )
    assert set(again.resources) == {"a", "b"}, "it has none any more"
    assert again.withheld == ()


def test_a_resource_in_a_wrapper_without_a_time_to_live_is_saved_without_it() -> None:
    wrapped = with_ttl("a", body=True)
    wrapped.ClearField("ttl")
    found = after(STATE_OF_THE_WORLD, sent(STATE_OF_THE_WORLD, wrapped)).resources["a"]
    assert found.body == wrapped.resource.SerializeToString()


def test_only_wrappers_without_bodies_prolong() -> None:
    whole = STATE_OF_THE_WORLD
    assert only_prolongs(sent(whole, with_ttl("a", body=False)))
    assert not only_prolongs(sent(whole, with_ttl("a", body=True), with_ttl("b", body=False)))
    assert not only_prolongs(everything(CLUSTER, {}))
    assert not only_prolongs(everything(CLUSTER, {"a": ""}))


def test_a_resource_that_is_left_out_does_not_end_saving_of_others(tmp_path: Path) -> None:
    """In delta, Envoy has more than a change brings; what was left out before is known."""
    store = Store(saved_config(tmp_path / "s"))
    keep = frozenset({"a", "b"})
    first = sent(DELTA, with_ttl("a", body=True))
    for response, expected in ((first, set()), (difference(CLUSTER, {"b": "1"}), {"b"})):
        names = keep & {"a", *expected}
        change = Change(DELTA, response, False, names, frozenset())
        store.save(OWNER, {CLUSTER: [change]}, current_at=1.0)
        assert set(store.resources(CLUSTER) or {}) == expected
    store.close()


def test_an_on_demand_virtual_host_is_saved_under_its_whole_name() -> None:
    name = "routes/shop.example"
    message = discovery_pb2.DeltaDiscoveryResponse(type_url=VIRTUAL_HOST)
    added = message.resources.add(name=name, version="1", aliases=["routes/www.shop.example"])
    added.resource.Pack(route_components_pb2.VirtualHost(name="shop", domains=["shop.example"]))
    unknown = message.resources.add(name="routes/unknown", version="1", aliases=["routes/unknown"])
    assert not unknown.HasField("resource")
    found = after(DELTA, bytes(message.SerializeToString()))
    assert set(found.resources) == {name}
    again = discovery_pb2.Resource()
    again.MergeFromString(found.resources[name].more)
    assert list(again.aliases) == ["routes/www.shop.example"]
