"""Messages of Envoy's API are built from plain data, and what is wrong with it is reported."""

import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from istio_config.envoy_api._constraints import constraint_mistakes
from istio_config.envoy_api._message_types import find_type, is_of_old_api
from istio_config.envoy_api._plain_data import message_differences, message_of

LUA = "envoy.extensions.filters.http.lua.v3.Lua"
CLUSTER = "envoy.config.cluster.v3.Cluster"
FILTER = "envoy.config.listener.v3.Filter"
LIMIT = "per_connection_buffer_limit_bytes"
ACTIONS = "route, redirect, direct_response, filter_action, non_forwarding_action"
TCP_PROXY = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"
HASHED = "header, cookie, connection_properties, query_parameter, filter_state"
ROUTE = "envoy.config.route.v3.Route"


def known(name: str) -> Descriptor:
    found = find_type(name)
    assert found is not None
    return found


def test_only_the_modules_of_a_named_type_are_imported() -> None:
    code = (
        "import sys\n"
        "from istio_config.envoy_api._message_types import find_type\n"
        f"assert find_type('{LUA}') is not None\n"
        "modules = [each for each in sys.modules if each.startswith('envoy.extensions.')]\n"
        "assert any('http.lua' in each for each in modules), modules\n"
        "assert not any('http.jwt_authn' in each for each in modules), modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "name",
    ["", "Lua", "envoy", "os.path.Join", "envoy.no.such.v3.Type", f"{LUA}x", "envoy..Lua", "a.B"],
)
def test_other_names_are_no_types(name: str) -> None:
    assert find_type(name) is None


def test_types_of_the_old_api_are_distinguished() -> None:
    assert is_of_old_api("envoy.config.filter.http.lua.v2.Lua")
    assert is_of_old_api("envoy.api.v2.Cluster")
    assert not is_of_old_api(LUA)


@pytest.mark.parametrize(
    ("name", "value", "path", "text"),
    [
        (CLUSTER, {"connect_timeout": 5}, "connect_timeout", "a duration in seconds"),
        (CLUSTER, {"connectTimeout": "5"}, "connectTimeout", "a duration in seconds"),
        (CLUSTER, {"name": True}, "name", "expected text, found true"),
        (CLUSTER, {LIMIT: -1}, LIMIT, "not neg"),
        (CLUSTER, {LIMIT: "x"}, LIMIT, "not neg"),
        (CLUSTER, {"type": 99}, "type", "expected one of STATIC"),
        (CLUSTER, {"respect_dns_ttl": "maybe"}, "respect_dns_ttl", "true or false"),
        (CLUSTER, {"metadata": []}, "metadata", "expected the fields of envoy.config.core"),
        (CLUSTER, {"metadata": {"filter_metadata": []}}, "metadata.filter_metadata", "a mapping"),
        (CLUSTER, {"metadata": {"filter_metadata": {"a": 1}}}, "metadata.filter_metadata.a", "map"),
        (CLUSTER, {"name": "a", "Name": "b"}, "Name", "did you mean name?"),
        (CLUSTER, {"alt_stat_name": "a", "altStatName": "b"}, "altStatName", "alt_stat_name once"),
        (FILTER, {"typed_config": []}, "typed_config", 'type URL in "@type"'),
        (FILTER, {"typed_config": {"@type": LUA}}, "typed_config.@type", "expected a type URL"),
        (FILTER, {"typed_config": {"@type": f"x/{CLUSTER}", "a": 1}}, "typed_config.a", CLUSTER),
        (ROUTE, {"route": {}, "redirect": {}}, "redirect", "excludes route"),
        (ROUTE, {"match": {"prefix": "/", "path": "/"}}, "match.path", "excludes prefix"),
    ],
)
def test_differences_have_a_place_and_a_remedy(
    name: str, value: dict[str, Any], path: str, text: str
) -> None:
    ((where, message),) = message_differences(value, known(name), ())
    assert ".".join(map(str, where)) == path
    assert text in message


def test_names_of_fields_are_taken_in_both_spellings_and_nothing_is_unset() -> None:
    value: dict[str, Any] = {"connectTimeout": "1.5s", "lb_policy": "MAGLEV", "altStatName": None}
    assert list(message_differences(value, known(CLUSTER), ())) == []
    message = message_of(value, known(CLUSTER))
    assert (message.connect_timeout.nanos, message.lb_policy) == (500_000_000, 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (CLUSTER, {}, {"name: is missing"}),
        (
            CLUSTER,
            {"name": "a", "connect_timeout": "0s"},
            {"connect_timeout: must be more than 0s, found 0s"},
        ),
        (ROUTE, {"match": {"prefix": "/"}}, {f": needs one of {ACTIONS}"}),
        (ROUTE, {"route": {"cluster": "a"}}, {"match: is missing"}),
        (
            ROUTE,
            {"match": {"prefix": "/"}, "direct_response": {"status": 99}},
            {"direct_response.status: must be at least 200, found 99"},
        ),
        (
            ROUTE,
            {"match": {"safe_regex": {"regex": r"\pL{9}"}}, "redirect": {}},
            {r'match.safe_regex.regex: "\pL{9}" is too large a regular expression for Envoy'},
        ),
        (
            ROUTE,
            {
                "match": {"safe_regex": {"regex": "("}},
                "route": {"cluster": "a", "hash_policy": [{}]},
                "request_headers_to_add": [{"header": {"key": "a\nb", "value": "x"}}],
            },
            {
                'match.safe_regex.regex: "(" is not a regular expression of RE2',
                f"route.hash_policy.0: needs one of {HASHED}",
                "request_headers_to_add.0.header.key: is no name of a header",
            },
        ),
        (
            FILTER,
            {"name": "a", "typed_config": {"@type": f"x/{TCP_PROXY}"}},
            {
                "typed_config.stat_prefix: is missing",
                "typed_config: needs one of cluster, weighted_clusters",
            },
        ),
    ],
)
def test_broken_constraints_are_found_also_in_configurations_of_filters(
    name: str, value: dict[str, Any], expected: set[str]
) -> None:
    message = message_of(value, known(name))
    found = {f"{'.'.join(map(str, path))}: {text}" for path, text in constraint_mistakes(message)}
    assert found == expected
