"""Routes of Envoy's, as gRPC clients are given them."""

from envoy.config.route.v3.route_components_pb2 import Route
from google.protobuf import json_format, text_format

from envoy_config.generate.proxyless._routes import grpc_routes


def route(text: str) -> Route:
    return text_format.Parse(text, Route())


def given(*texts: str) -> list[dict[str, object]]:
    routes = grpc_routes(route(text) for text in texts)
    return [json_format.MessageToDict(each, preserving_proto_field_name=True) for each in routes]


def test_a_route_by_query_parameter_is_left_out() -> None:
    by_query = 'match {prefix: "/" query_parameters {name: "a"}} route {cluster: "a"}'
    assert given(by_query, 'name: "b" match {prefix: "/"} route {cluster: "b"}') == [
        {"name": "b", "match": {"prefix": "/"}, "route": {"cluster": "b"}}
    ]


def test_a_timeout_bounds_the_stream_and_none_means_none() -> None:
    (bounded,) = given('match {prefix: "/"} route {cluster: "a" timeout {seconds: 5}}')
    assert bounded["route"] == {
        "cluster": "a",
        "max_stream_duration": {"max_stream_duration": "5s"},
    }
    (unbounded,) = given('match {prefix: "/"} route {cluster: "a" timeout {}}')
    assert unbounded["route"] == {"cluster": "a"}


def test_only_conditions_of_grpc_are_retried() -> None:
    (kept,) = given(
        'match {prefix: "/"} route {cluster: "a" retry_policy {num_retries {value: 9} '
        'retry_on: "connect-failure,unavailable,cancelled" '
        'retry_host_predicate {name: "envoy.retry_host_predicates.previous_hosts"}}}'
    )
    assert kept["route"] == {
        "cluster": "a",
        "retry_policy": {"retry_on": "cancelled,unavailable", "num_retries": 4},
    }
    (none,) = given('match {prefix: "/"} route {cluster: "a" retry_policy {retry_on: "5xx"}}')
    assert none["route"] == {"cluster": "a"}


def test_shares_stay_and_what_grpc_does_not_know_goes() -> None:
    (found,) = given(
        'match {prefix: "/"} route {weighted_clusters {clusters {name: "a" weight {value: 3} '
        'request_headers_to_remove: "x"} clusters {name: "b" weight {value: 1}}} '
        'host_rewrite_literal: "h" request_mirror_policies {cluster: "m"} '
        'hash_policy {header {header_name: "x"}} hash_policy {cookie {name: "c"}}} '
        'typed_per_filter_config {key: "envoy.filters.http.cors" value {}} '
        'typed_per_filter_config {key: "envoy.filters.http.fault" value {}}'
    )
    assert found["route"] == {
        "weighted_clusters": {"clusters": [{"name": "a", "weight": 3}, {"name": "b", "weight": 1}]},
        "hash_policy": [{"header": {"header_name": "x"}}],
    }
    assert list(found["typed_per_filter_config"]) == ["envoy.filters.http.fault"]  # type: ignore[call-overload]
