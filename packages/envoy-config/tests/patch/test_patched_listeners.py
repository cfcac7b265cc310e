"""The listeners that patches are for, how they are merged into them, and what is left out."""

from functools import partial
from typing import Any

import pytest

from envoy_config.patch._acceptance import listener_mistakes
from envoy_config.patch._filters import Listener
from envoy_config.patch._listeners import listener_stage, patch_listener
from envoy_config.patch._resources import Outcome, Sort, patched
from envoy_config.patch._routes import RouteSide
from envoy_filters import LUA, MANAGER, patches_of
from istio_config.kinds.envoy_filter import Context
from listeners_to_patch import (
    AT_TCP,
    BEFORE_ROUTER,
    HTTP,
    OUTBOUND,
    RBAC,
    TCP,
    apply,
    change,
    listener,
    manager,
    names,
    of_http,
)


def test_a_listener_is_merged_into_and_removed() -> None:
    merged = apply([change("LISTENER", "MERGE", {"per_connection_buffer_limit_bytes": 7})]).message
    assert merged is not None
    assert merged.per_connection_buffer_limit_bytes.value == 7
    assert len(merged.filter_chains) == 2
    assert apply([change("LISTENER", "REMOVE", name="10.0.0.1_80")]).message is None
    before = listener()
    assert apply([change("LISTENER", "REMOVE", name="other")], before).message is before


def test_settings_of_filters_are_merged_by_type() -> None:
    config = {
        "@type": HTTP["typed_config"]["@type"],
        "stream_idle_timeout": "9s",
        "http_filters": [LUA],
        "use_remote_address": True,
    }
    value = {"name": MANAGER, "typed_config": config}
    at = {"filterChain": {"filter": {"name": MANAGER}}}
    merged = manager(apply([change("NETWORK_FILTER", "MERGE", value, **at)]).message)
    # Durations and wrapped values overwrite, lists are appended to.
    assert merged.stream_idle_timeout.seconds == 9
    assert merged.use_remote_address.value
    assert names(merged.http_filters) == ["fault", "cors", "router", "lua"]
    replaced = apply([change("NETWORK_FILTER", "MERGE_AND_REPLACE_LIST", value, **at)])
    assert names(manager(replaced.message).http_filters) == ["lua"]


def test_settings_of_another_type_leave_a_named_filter_as_it_was() -> None:
    before = listener()
    outcome = apply([change("NETWORK_FILTER", "MERGE", RBAC, **AT_TCP)], before)
    assert outcome.message is before
    (failure,) = outcome.failures
    assert "is of the type envoy.extensions.filters.network.rbac.v3.RBAC" in failure.reason


def test_a_merge_without_a_name_is_for_filters_of_its_type() -> None:
    value = {"typed_config": {**TCP["typed_config"], "stat_prefix": "x"}}
    outcome = apply([change("NETWORK_FILTER", "MERGE", value)])
    assert outcome.message is not None
    assert not outcome.failures
    assert b"x" in outcome.message.filter_chains[1].filters[0].typed_config.value
    assert manager(outcome.message).stat_prefix == "http"


@pytest.mark.parametrize(
    ("match", "chains"),
    [
        ({}, "web raw rest"),
        ({"name": "10.0.0.1_80"}, "web raw rest"),
        ({"name": "other"}, ""),
        ({"portNumber": 80}, "web raw rest"),
        ({"portNumber": 81}, ""),
        ({"filterChain": {"name": "raw"}}, "raw"),
        ({"filterChain": {"sni": "a.example"}}, "web"),
        ({"filterChain": {"sni": "b.example"}}, ""),
        ({"filterChain": {"transportProtocol": "tls"}}, "web"),
        (
            {"filterChain": {"transportSocket": "envoy.transport_sockets.raw_buffer"}},
            "web raw rest",
        ),
        ({"filterChain": {"transportSocket": "envoy.transport_sockets.tls"}}, ""),
        ({"filterChain": {"applicationProtocols": "h2"}}, "web"),
        ({"filterChain": {"applicationProtocols": "h2,http/1.1"}}, "web"),
        ({"filterChain": {"applicationProtocols": "h2, h3"}}, ""),
        ({"filterChain": {"destinationPort": 9000}}, "raw"),
        ({"filterChain": {"name": "raw", "destinationPort": 8080}}, ""),
    ],
)
def test_chains_are_matched(match: dict[str, Any], chains: str) -> None:
    value = {"transport_socket_connect_timeout": "7s"}
    patched = apply([change("FILTER_CHAIN", "MERGE", value, **match)]).message
    assert patched is not None
    found = [
        each.name
        for each in (*patched.filter_chains, patched.default_filter_chain)
        if each.transport_socket_connect_timeout.seconds == 7
    ]
    assert " ".join(found) == chains


def test_the_port_of_a_listener_for_all_ports_is_that_of_its_chains() -> None:
    before = listener("virtualInbound", 15006)
    value = {"transport_socket_connect_timeout": "7s"}
    patched = apply([change("FILTER_CHAIN", "MERGE", value, portNumber=9000)], before).message
    assert patched is not None
    timeouts = [each.transport_socket_connect_timeout.seconds for each in patched.filter_chains]
    assert timeouts == [0, 7]
    whole = change("LISTENER", "MERGE", {"stat_prefix": "x"}, portNumber=15006)
    merged = apply([whole], before).message
    assert merged is not None
    assert merged.stat_prefix == "x"


def test_filters_are_put_in_their_places_before_they_are_merged_into() -> None:
    at_lua = {"filterChain": {"filter": {"name": MANAGER, "subFilter": {"name": LUA["name"]}}}}
    merged = {"typed_config": {"@type": LUA["typed_config"]["@type"], "stat_prefix": "x"}}
    outcome = apply(
        [
            change("HTTP_FILTER", "MERGE", merged, **at_lua),
            change("HTTP_FILTER", "INSERT_FIRST", LUA),
        ]
    )
    first = manager(outcome.message).http_filters[0]
    assert b"x" in first.typed_config.value
    assert b"envoy_on_request" in first.typed_config.value


def test_a_chain_that_is_added_is_not_patched_by_others() -> None:
    outcome = apply(
        [
            change("FILTER_CHAIN", "ADD", {"name": "more", "filters": [TCP]}),
            change("NETWORK_FILTER", "INSERT_FIRST", RBAC),
        ]
    )
    assert outcome.message is not None
    filters = [names(each.filters) for each in outcome.message.filter_chains]
    assert filters == [["rbac", "http_connection_manager"], ["rbac", "tcp_proxy"], ["tcp_proxy"]]


def test_patches_of_the_other_side_are_not_for_a_listener() -> None:
    inbound = change("HTTP_FILTER", "INSERT_FIRST", LUA) | {"match": {"context": "SIDECAR_INBOUND"}}
    before = listener()
    assert apply([inbound], before).message is before
    patched = apply([inbound], before, RouteSide(Context.SIDECAR_INBOUND)).message
    assert patched is not None
    assert of_http(patched) == ["lua", "fault", "cors", "router"]


def test_inline_routes_of_a_listener_are_patched() -> None:
    value = {"name": "mine", "match": {"prefix": "/"}, "direct_response": {"status": 204}}
    patch = {
        "applyTo": "HTTP_ROUTE",
        "match": {"routeConfiguration": {"name": "inbound|8080||"}},
        "patch": {"operation": "INSERT_FIRST", "value": value},
    }
    patched = manager(apply([patch]).message)
    assert names(patched.route_config.virtual_hosts[0].routes) == ["mine"]


def test_transport_sockets_of_chains_are_merged_by_name() -> None:
    tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    before = listener()
    chain = before.filter_chains[0]
    chain.transport_socket.name = "envoy.transport_sockets.tls"
    chain.transport_socket.typed_config.type_url = tls

    def merged(name: str) -> dict[str, Any]:
        config = {"@type": tls, "require_client_certificate": True}
        return {"transport_socket": {"name": name, "typed_config": config}}

    at = {"filterChain": {"name": "web"}}
    same = merged("envoy.transport_sockets.tls")
    patched = apply([change("FILTER_CHAIN", "MERGE", same, **at)], before).message
    assert patched is not None
    assert patched.filter_chains[0].transport_socket.typed_config.value != b""
    other = apply([change("FILTER_CHAIN", "MERGE", merged("mine"), **at)], before)
    assert other.message is before
    assert "the chain has envoy.transport_sockets.tls" in other.failures[0].reason
    unset = {"filterChain": {"name": "raw"}}
    added = apply([change("FILTER_CHAIN", "MERGE", same, **unset)], before).message
    assert added is not None
    assert added.filter_chains[1].HasField("transport_socket")


def looked_at(patches: list[dict[str, Any]]) -> Outcome[Listener]:
    """Apply patches, each of which is left out if Envoy would refuse its outcome."""
    sort = Sort[Listener](
        apply=partial(patch_listener, side=OUTBOUND),
        mistakes=listener_mistakes,
        name_of=lambda each: each.name,
    )
    return patched(listener(), sorted(patches_of(patches), key=listener_stage), sort)


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (change("HTTP_FILTER", "ADD", LUA), "router ends the chain, and envoy.filters.http.lua is"),
        (change("NETWORK_FILTER", "ADD", RBAC), "ends the chain"),
        (change("NETWORK_FILTER", "REMOVE", **AT_TCP), "no filters"),
        (change("HTTP_FILTER", "REMOVE", **BEFORE_ROUTER), "is not one that ends a chain"),
        (change("HTTP_FILTER", "INSERT_FIRST", {"name": "x"}), "typed_config: is missing"),
        (change("LISTENER", "MERGE", {"name": "other"}), 'the name would be "other"'),
        (
            change(
                "FILTER_CHAIN",
                "ADD",
                {"filter_chain_match": {"destination_port": 9000}, "filters": [TCP]},
            ),
            "two filter chains have the same match: destination_port { value: 9000 }",
        ),
    ],
)
def test_what_envoy_would_refuse_is_left_out_and_the_others_go_on(
    patch: dict[str, Any], reason: str
) -> None:
    good = change("LISTENER", "MERGE", {"stat_prefix": "x"})
    outcome = looked_at([patch, good])
    assert reason in " ".join(each.reason for each in outcome.failures)
    assert outcome.message is not None
    expected = listener()
    expected.stat_prefix = "x"
    assert outcome.message == expected


def test_a_chain_for_all_connections_is_added_once() -> None:
    add = change("FILTER_CHAIN", "ADD", {"filters": [TCP]})
    outcome = looked_at([add, add])
    assert [each.reason for each in outcome.failures] == [
        "two filter chains have the same match: any connection"
    ]
