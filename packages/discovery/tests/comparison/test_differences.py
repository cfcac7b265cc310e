"""How an Envoy's config dump differs from what it would be given."""

from collections.abc import Mapping
from typing import Any

import pytest

from mesh_discovery.comparison._differences import (
    differences,
    endpoints_asked_for,
    first_difference,
    routes_asked_for,
)
from mesh_discovery.comparison._held import NotADumpError, read_config_dump

CLUSTER = {"name": "a", "type": "EDS", "eds_cluster_config": {"service_name": "a-hosts"}}


def hosts(*addresses: str, weight: int = 1, priority: int = 0, zone: str = "") -> dict[str, Any]:
    return {
        "cluster_name": "a",
        "endpoints": [
            {
                "priority": priority,
                "locality": {"zone": zone},
                "lb_endpoints": [
                    {
                        "load_balancing_weight": weight,
                        "endpoint": {
                            "address": {"socket_address": {"address": each, "port_value": 80}}
                        },
                    }
                    for each in addresses
                ],
            }
        ],
    }


def dump(**sections: Any) -> dict[str, Any]:
    return {"configs": [{name: value} for name, value in sections.items()]}


WHOLE = dump(
    bootstrap={"node": {"id": "sidecar~10.0.0.1~a.b~b.svc.cluster.local", "metadata": {"A": "B"}}},
    dynamic_active_clusters=[{"cluster": {"@type": "x", **CLUSTER}}],
    dynamic_listeners=[{"name": "l", "active_state": {"listener": {"@type": "x", "name": "l"}}}],
    dynamic_route_configs=[{"route_config": {"@type": "x", "name": "80"}}],
    dynamic_endpoint_configs=[{"endpoint_config": hosts("10.0.0.1", "10.0.0.2")}],
)
EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "cluster": {"a": CLUSTER},
    "listener": {"l": {"name": "l"}},
    "route": {"80": {"name": "80"}},
    "endpoint": {"a": hosts("10.0.0.2", "10.0.0.1")},
}


def test_an_envoy_that_has_everything_does_not_differ() -> None:
    held = read_config_dump(WHOLE)

    assert list(differences(EXPECTED, held)) == []
    assert held.node is not None
    assert held.node.metadata == {"A": "B"}


@pytest.mark.parametrize(
    ("section", "value", "text"),
    [
        ("dynamic_active_clusters", [], "cluster a: missing"),
        (
            "dynamic_active_clusters",
            [{"cluster": {"name": "a", "type": "STATIC"}}],
            (
                "cluster a: differs: eds_cluster_config: "
                "expected {'service_name': 'a-hosts'}, Envoy has nothing"
            ),
        ),
        ("dynamic_warming_clusters", [{"cluster": {"name": "a"}}], "cluster a: warming"),
        (
            "dynamic_listeners",
            [{"name": "l", "error_state": {"details": "bad filter"}}],
            "listener l: refused: bad filter",
        ),
        ("dynamic_listeners", [{"name": "l", "warming_state": {}}], "listener l: warming"),
        (
            "dynamic_route_configs",
            [{"route_config": {"name": "80", "virtual_hosts": [{"name": "b"}]}}],
            "route 80: differs: virtual_hosts: expected nothing, Envoy has [{'name': 'b'}]",
        ),
        (
            "dynamic_endpoint_configs",
            [{"endpoint_config": hosts("10.0.0.1", weight=2)}],
            (
                "endpoint a: differs: endpoints: expected "
                "10.0.0.1:80 (priority 0, locality none, weight 1), "
                "10.0.0.2:80 (priority 0, locality none, weight 1), "
                "Envoy has 10.0.0.1:80 (priority 0, locality none, weight 2)"
            ),
        ),
    ],
)
def test_each_difference_is_reported_with_its_place(section: str, value: Any, text: str) -> None:
    others = [each for each in WHOLE["configs"] if section not in each]
    held = read_config_dump({"configs": [*others, {section: value}]})

    assert [str(each) for each in differences(EXPECTED, held)] == [text]


@pytest.mark.parametrize(
    "version",
    [
        {"user_agent_version": "1.40.0"},
        {"user_agent_build_version": {"version": {"major_number": 1, "minor_number": 40}}},
    ],
)
def test_the_version_of_an_envoy_is_read_as_it_says_it(version: dict[str, Any]) -> None:
    node = {"id": "sidecar~10.0.0.1~a.b~b", "user_agent_name": "envoy", **version}
    held = read_config_dump({"configs": [{"bootstrap": {"node": node}}]})

    assert held.node is not None
    assert held.node.user_agent == "envoy/1.40.0"


def test_a_token_that_envoy_does_not_show_is_no_difference() -> None:
    assert first_difference({"a": {"token": "t"}}, {"a": {"token": "[redacted]"}}) is None


def test_something_that_it_would_not_be_given_is_reported() -> None:
    held = read_config_dump(WHOLE)

    assert [str(each) for each in differences({}, held)] == [
        "cluster a: extra",
        "listener l: extra",
        "route 80: extra",
    ]


def test_of_endpoints_with_one_address_an_envoy_has_one() -> None:
    twice = hosts("10.0.0.1")
    twice["endpoints"] += hosts("10.0.0.1", zone="z1", weight=5)["endpoints"]
    held = read_config_dump(dump(dynamic_endpoint_configs=[{"endpoint_config": hosts("10.0.0.1")}]))

    assert list(differences({"endpoint": {"a": twice}}, held)) == []
    assert [each.what for each in differences({"endpoint": {"a": hosts("10.0.0.2")}}, held)] == [
        (
            "expected 10.0.0.2:80 (priority 0, locality none, weight 1), "
            "Envoy has 10.0.0.1:80 (priority 0, locality none, weight 1)"
        )
    ]


@pytest.mark.parametrize("document", [[], {}, {"configs": "x"}, "text"])
def test_something_else_is_no_dump(document: object) -> None:
    with pytest.raises(NotADumpError):
        read_config_dump(document)


def test_names_that_resources_ask_for_are_found() -> None:
    listener = {"filter_chains": [{"filters": [{"rds": {"route_config_name": "80"}}]}]}

    assert routes_asked_for({"l": listener}) == {"80"}
    assert endpoints_asked_for({"a": CLUSTER, "b": {"type": "STATIC"}, "c": {"type": "EDS"}}) == {
        "a-hosts",
        "c",
    }


@pytest.mark.parametrize(
    ("wanted", "had", "text"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, ("a[1]", "expected 2, Envoy has 3")),
        ({"a": [1, 2]}, {"a": [1]}, ("a", "expected 2 entries, Envoy has 1")),
        ({"a": {"b": "x"}}, {"a": {"b": "x"}}, None),
        ({"a": 1}, {"a": 1.0}, None),
    ],
)
def test_the_first_difference_has_the_place_and_both_values(
    wanted: object, had: object, text: object
) -> None:
    assert first_difference(wanted, had) == text
