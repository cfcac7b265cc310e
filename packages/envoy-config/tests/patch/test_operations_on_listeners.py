"""Each operation of a patch on each object of a listener."""

from typing import Any

import pytest

from envoy_filters import LUA
from listeners_to_patch import (
    AT_TCP,
    BEFORE_ROUTER,
    CORS_MATCH,
    INSPECTOR,
    PROXY_PROTOCOL,
    RBAC,
    TCP,
    UNKNOWN,
    apply,
    change,
    of_chains,
    of_http,
    of_listener,
    of_network,
)


@pytest.mark.parametrize(
    ("patch", "found", "expected"),
    [
        pytest.param(patch, found, expected, id=f"{patch['applyTo']}-{name}")
        for name, patch, found, expected in [
            ("add", change("HTTP_FILTER", "ADD", LUA), of_http, "fault cors router lua"),
            ("first", change("HTTP_FILTER", "INSERT_FIRST", LUA), of_http, "lua fault cors router"),
            (
                "first-if-there",
                change("HTTP_FILTER", "INSERT_FIRST", LUA, **CORS_MATCH),
                of_http,
                "lua fault cors router",
            ),
            (
                "first-if-not-there",
                change("HTTP_FILTER", "INSERT_FIRST", LUA, **UNKNOWN),
                of_http,
                "fault cors router",
            ),
            (
                "before",
                change("HTTP_FILTER", "INSERT_BEFORE", LUA, **BEFORE_ROUTER),
                of_http,
                "fault cors lua router",
            ),
            (
                "before-all",
                change("HTTP_FILTER", "INSERT_BEFORE", LUA),
                of_http,
                "lua fault cors router",
            ),
            (
                "after",
                change("HTTP_FILTER", "INSERT_AFTER", LUA, **CORS_MATCH),
                of_http,
                "fault cors lua router",
            ),
            (
                "after-all",
                change("HTTP_FILTER", "INSERT_AFTER", LUA),
                of_http,
                "fault cors router lua",
            ),
            (
                "before-unknown",
                change("HTTP_FILTER", "INSERT_BEFORE", LUA, **UNKNOWN),
                of_http,
                "fault cors router",
            ),
            ("remove", change("HTTP_FILTER", "REMOVE", **CORS_MATCH), of_http, "fault router"),
            (
                "replace",
                change("HTTP_FILTER", "REPLACE", LUA, **CORS_MATCH),
                of_http,
                "fault lua router",
            ),
            (
                "merge-name",
                change("HTTP_FILTER", "MERGE", {"name": "x.mine"}, **CORS_MATCH),
                of_http,
                "fault mine router",
            ),
            ("add", change("NETWORK_FILTER", "ADD", RBAC), of_network, "tcp_proxy rbac"),
            ("first", change("NETWORK_FILTER", "INSERT_FIRST", RBAC), of_network, "rbac tcp_proxy"),
            (
                "before",
                change("NETWORK_FILTER", "INSERT_BEFORE", RBAC, **AT_TCP),
                of_network,
                "rbac tcp_proxy",
            ),
            (
                "after",
                change("NETWORK_FILTER", "INSERT_AFTER", RBAC, **AT_TCP),
                of_network,
                "tcp_proxy rbac",
            ),
            ("remove", change("NETWORK_FILTER", "REMOVE", **AT_TCP), of_network, ""),
            ("replace", change("NETWORK_FILTER", "REPLACE", RBAC, **AT_TCP), of_network, "rbac"),
            (
                "merge-name",
                change("NETWORK_FILTER", "MERGE", {"name": "x.mine"}, **AT_TCP),
                of_network,
                "mine",
            ),
            (
                "add",
                change("LISTENER_FILTER", "ADD", PROXY_PROTOCOL),
                of_listener,
                "original_dst tls_inspector proxy_protocol",
            ),
            (
                "before-all",
                change("LISTENER_FILTER", "INSERT_BEFORE", PROXY_PROTOCOL),
                of_listener,
                "proxy_protocol original_dst tls_inspector",
            ),
            (
                "after-all",
                change("LISTENER_FILTER", "INSERT_AFTER", PROXY_PROTOCOL),
                of_listener,
                "original_dst tls_inspector proxy_protocol",
            ),
            (
                "first",
                change("LISTENER_FILTER", "INSERT_FIRST", PROXY_PROTOCOL),
                of_listener,
                "proxy_protocol original_dst tls_inspector",
            ),
            (
                "before",
                change(
                    "LISTENER_FILTER",
                    "INSERT_BEFORE",
                    PROXY_PROTOCOL,
                    listenerFilter=INSPECTOR["name"],
                ),
                of_listener,
                "original_dst proxy_protocol tls_inspector",
            ),
            (
                "remove",
                change("LISTENER_FILTER", "REMOVE", listenerFilter=INSPECTOR["name"]),
                of_listener,
                "original_dst",
            ),
            (
                "replace",
                change(
                    "LISTENER_FILTER", "REPLACE", PROXY_PROTOCOL, listenerFilter=INSPECTOR["name"]
                ),
                of_listener,
                "original_dst proxy_protocol",
            ),
            (
                "merge-name",
                change(
                    "LISTENER_FILTER", "MERGE", {"name": "x.mine"}, listenerFilter=INSPECTOR["name"]
                ),
                of_listener,
                "original_dst mine",
            ),
            (
                "add",
                change("FILTER_CHAIN", "ADD", {"name": "more", "filters": [TCP]}),
                of_chains,
                "web raw more rest",
            ),
            (
                "insert-is-add",
                change("FILTER_CHAIN", "INSERT_FIRST", {"name": "more", "filters": [TCP]}),
                of_chains,
                "web raw more rest",
            ),
            (
                "remove",
                change("FILTER_CHAIN", "REMOVE", filterChain={"name": "raw"}),
                of_chains,
                "web rest",
            ),
            (
                "remove-default",
                change("FILTER_CHAIN", "REMOVE", filterChain={"name": "rest"}),
                of_chains,
                "web raw ",
            ),
            (
                "merge",
                change("FILTER_CHAIN", "MERGE", {"name": "x"}, filterChain={"name": "raw"}),
                of_chains,
                "web x rest",
            ),
            ("merge-all", change("FILTER_CHAIN", "MERGE", {"name": "x"}), of_chains, "x x x"),
        ]
    ],
)
def test_each_operation_puts_things_where_it_says(
    patch: dict[str, Any], found: Any, expected: str
) -> None:
    outcome = apply([patch])
    assert not outcome.failures
    assert outcome.message is not None
    assert " ".join(found(outcome.message)) == expected
