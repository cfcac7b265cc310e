"""Each operation of a patch on clusters, and on route configurations and what is in them."""

from functools import partial
from typing import Any

import pytest

from envoy_config.patch._acceptance import route_mistakes
from envoy_config.patch._cluster_acceptance import cluster_mistakes
from envoy_config.patch._clusters import Cluster, may_match_cluster, patch_cluster
from envoy_config.patch._resources import Outcome, Sort, patched
from envoy_config.patch._routes import RouteConfiguration, RouteSide, patch_routes, route_stage
from envoy_filters import patches_of
from istio_config.envoy_api import find_type, message_of
from istio_config.kinds.envoy_filter import Context

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
REVIEWS = "outbound|9080|v1|reviews.a.svc.cluster.local"
OUTBOUND = RouteSide(Context.SIDECAR_OUTBOUND)


def cluster(name: str = REVIEWS, **fields: Any) -> Cluster:
    descriptor = find_type("envoy.config.cluster.v3.Cluster")
    assert descriptor is not None
    eds = {"type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}}
    message = message_of({"name": name, "connect_timeout": "10s", **eds, **fields}, descriptor)
    assert isinstance(message, Cluster)
    return message


def merge(value: dict[str, Any], operation: str = "MERGE", **match: Any) -> dict[str, Any]:
    """Write a patch of clusters down."""
    found = {"applyTo": "CLUSTER", "patch": {"operation": operation, "value": value}}
    return found | ({"match": {"cluster": match}} if match else {})


def of_cluster(patch: dict[str, Any], to: Cluster | None = None) -> Outcome[Cluster]:
    sort = Sort(apply=patch_cluster, mistakes=cluster_mistakes, name_of=lambda each: each.name)
    return patched(cluster() if to is None else to, patches_of([patch]), sort)


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ({}, True),
        ({"name": REVIEWS}, True),
        ({"name": REVIEWS, "service": "ignored"}, True),
        ({"name": "other", "service": "reviews.a.svc.cluster.local"}, False),
        ({"service": "reviews.a.svc.cluster.local"}, True),
        ({"service": "reviews"}, False),
        ({"portNumber": 9080, "subset": "v1"}, True),
        ({"portNumber": 9081}, False),
        ({"subset": "v2"}, False),
    ],
)
def test_clusters_are_matched(match: dict[str, Any], is_matched: object) -> None:
    patch = merge({"connect_timeout": "1s"}, **match)
    outcome = of_cluster(patch)
    assert outcome.message is not None
    assert (outcome.message.connect_timeout.seconds == 1) == is_matched
    (merged,) = patches_of([patch])
    assert may_match_cluster(merged, REVIEWS) == is_matched


def test_inbound_clusters_are_matched_by_the_services_that_they_are_for() -> None:
    metadata = {"filter_metadata": {"istio": {"services": [{"host": "b.example"}]}}}
    inbound = cluster("inbound|8080||", metadata=metadata)
    for service, seconds in (("b.example", 1), ("c.example", 10)):
        patched = of_cluster(merge({"connect_timeout": "1s"}, service=service), inbound).message
        assert patched is not None
        assert patched.connect_timeout.seconds == seconds


def test_a_cluster_is_removed() -> None:
    patch = {"applyTo": "CLUSTER", "patch": {"operation": "REMOVE"}}
    assert of_cluster(patch | {"match": {"cluster": {"name": REVIEWS}}}).message is None


def test_mappings_are_united_and_lists_appended_to() -> None:
    http = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    tcp = "envoy.extensions.upstreams.tcp.v3.TcpProtocolOptions"
    prefix = "type.googleapis.com"
    one = {"@type": f"{prefix}/{http}", "explicit_http_config": {"http2_protocol_options": {}}}
    before = cluster(
        typed_extension_protocol_options={http: one},
        circuit_breakers={"thresholds": [{"max_connections": 1}]},
    )
    value = {
        "typed_extension_protocol_options": {tcp: {"@type": f"{prefix}/{tcp}"}},
        "circuit_breakers": {"thresholds": [{"priority": "HIGH", "max_connections": 2}]},
    }
    patched = of_cluster(merge(value), before).message
    assert patched is not None
    assert sorted(patched.typed_extension_protocol_options) == [http, tcp]
    assert [each.max_connections.value for each in patched.circuit_breakers.thresholds] == [1, 2]
    patched = of_cluster(merge(value, "MERGE_AND_REPLACE_LIST"), before).message
    assert patched is not None
    assert [each.max_connections.value for each in patched.circuit_breakers.thresholds] == [2]


def test_transport_sockets_are_merged_by_name() -> None:
    tls = {"name": "tls", "typed_config": {"@type": TLS, "sni": "a.example"}}
    raw = {"name": "raw"}
    before = cluster(
        transport_socket_matches=[
            {"name": "tlsMode-istio", "match": {"tlsMode": "istio"}, "transport_socket": tls},
            {"name": "tlsMode-disabled", "match": {}, "transport_socket": raw},
        ]
    )
    more = {"name": "tls", "typed_config": {"@type": TLS, "max_session_keys": 3}}
    patched = of_cluster(merge({"transport_socket": more, "connect_timeout": "1s"}), before).message
    assert patched is not None
    config = patched.transport_socket_matches[0].transport_socket.typed_config.value
    assert b"a.example" in config
    assert patched.connect_timeout.seconds == 1
    assert not patched.HasField("transport_socket")
    # No such name is among them: nothing at all changes.
    other = of_cluster(merge({"transport_socket": {"name": "x"}, "connect_timeout": "1s"}), before)
    assert other.message is before
    assert "has the transport socket x, and the cluster has tls, raw" in other.failures[0].reason
    plain = of_cluster(merge({"transport_socket": tls})).message
    assert plain is not None
    assert plain.transport_socket.name == "tls"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"name": "other"}, 'the name would be "other"'),
        ({"connect_timeout": "0s"}, "connect_timeout: must be more than 0s, found 0s"),
        ({"lb_policy": "CLUSTER_PROVIDED"}, "lb_policy CLUSTER_PROVIDED goes with the type"),
        ({"type": "STRICT_DNS"}, "eds_cluster_config is for the type EDS alone"),
        ({"health_checks": [{"timeout": "1s"}]}, "health_checks[0]: needs one of"),
    ],
)
def test_what_envoy_would_refuse_of_a_cluster_is_left_out(
    value: dict[str, Any], reason: str
) -> None:
    before = cluster()
    outcome = of_cluster(merge(value), before)
    assert outcome.message == before
    assert reason in outcome.failures[0].reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"lb_policy": "RING_HASH"}, "needs lb_policy CLUSTER_PROVIDED"),
        ({"eds_cluster_config": {"eds_config": {"ads": {}}}}, "for the type EDS alone"),
        (
            {"upstream_http_protocol_options": {"auto_sni": True}},
            "needs auto_sni and auto_san_validation",
        ),
    ],
)
def test_a_cluster_that_balances_by_itself_stays_one(value: dict[str, Any], reason: str) -> None:
    # PassthroughCluster, where nothing is intercepted.
    config = {
        "@type": "type.googleapis.com/"
        "envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
        "dns_cache_config": {"name": "x"},
    }
    descriptor = find_type("envoy.config.cluster.v3.Cluster")
    assert descriptor is not None
    before = message_of(
        {
            "name": "PassthroughCluster",
            "lb_policy": "CLUSTER_PROVIDED",
            "cluster_type": {"name": "forward", "typed_config": config},
        },
        descriptor,
    )
    assert isinstance(before, Cluster)
    outcome = of_cluster(merge(value), before)
    assert outcome.message == before
    assert reason in outcome.failures[0].reason


def routes(name: str = "80") -> RouteConfiguration:
    descriptor = find_type("envoy.config.route.v3.RouteConfiguration")
    assert descriptor is not None
    plain = {
        "name": name,
        "virtual_hosts": [
            {
                "name": "a:80",
                "domains": ["a.example", "a"],
                "routes": [
                    {"name": "old", "match": {"path": "/old"}, "redirect": {"path_redirect": "/"}},
                    {"name": "all", "match": {"prefix": "/"}, "route": {"cluster": "a"}},
                ],
            },
            {
                "name": "b:80",
                "domains": ["b.example"],
                "routes": [
                    {"name": "all", "match": {"prefix": "/"}, "direct_response": {"status": 404}}
                ],
            },
        ],
    }
    message = message_of(plain, descriptor)
    assert isinstance(message, RouteConfiguration)
    return message


def of_routes(
    patches: list[dict[str, Any]], name: str = "80", side: RouteSide = OUTBOUND
) -> Outcome[RouteConfiguration]:
    sort = Sort[RouteConfiguration](
        apply=partial(patch_routes, side=side),
        mistakes=route_mistakes,
        name_of=lambda each: each.name,
    )
    return patched(routes(name), sorted(patches_of(patches), key=route_stage), sort)


def change(apply_to: str, operation: str, value: Any = None, **match: Any) -> dict[str, Any]:
    """Write a patch of routes down; match: of route configurations."""
    patch = {"operation": operation} | ({"value": value} if value is not None else {})
    found = {"applyTo": apply_to, "patch": patch}
    return found | ({"match": {"routeConfiguration": match}} if match else {})


MINE = {"name": "mine", "match": {"path": "/mine"}, "direct_response": {"status": 204}}
HOST = {"name": "c:80", "domains": ["c.example"], "routes": []}
OLD = {"vhost": {"name": "a:80", "route": {"name": "old"}}}
AT_A = {"vhost": {"name": "a:80"}}
BY_DOMAIN = {"vhost": {"domainName": "b.example"}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (change("HTTP_ROUTE", "ADD", MINE, **AT_A), "a:80[old all mine] b:80[all]"),
        (change("HTTP_ROUTE", "ADD", MINE), "a:80[old all mine] b:80[all mine]"),
        (change("HTTP_ROUTE", "ADD", MINE, **BY_DOMAIN), "a:80[old all] b:80[all mine]"),
        (change("HTTP_ROUTE", "INSERT_FIRST", MINE, **AT_A), "a:80[mine old all] b:80[all]"),
        (change("HTTP_ROUTE", "INSERT_FIRST", MINE, **OLD), "a:80[mine old all] b:80[all]"),
        (change("HTTP_ROUTE", "INSERT_AFTER", MINE, **OLD), "a:80[old mine all] b:80[all]"),
        (change("HTTP_ROUTE", "INSERT_BEFORE", MINE, **AT_A), "a:80[mine old all] b:80[all]"),
        (
            change("HTTP_ROUTE", "INSERT_FIRST", MINE, vhost={"route": {"name": "unknown"}}),
            "a:80[old all] b:80[all]",
        ),
        (change("HTTP_ROUTE", "REMOVE", **OLD), "a:80[all] b:80[all]"),
        (
            change("HTTP_ROUTE", "REMOVE", vhost={"route": {"action": "REDIRECT"}}),
            "a:80[all] b:80[all]",
        ),
        (
            change("HTTP_ROUTE", "REMOVE", vhost={"route": {"action": "DIRECT_RESPONSE"}}),
            "a:80[old all] b:80[]",
        ),
        (
            change("HTTP_ROUTE", "MERGE", {"name": "x"}, vhost={"route": {"action": "ROUTE"}}),
            "a:80[old x] b:80[all]",
        ),
        (change("VIRTUAL_HOST", "ADD", HOST), "a:80[old all] b:80[all] c:80[]"),
        (change("VIRTUAL_HOST", "INSERT_FIRST", HOST), "a:80[old all] b:80[all] c:80[]"),
        (change("VIRTUAL_HOST", "REMOVE", **AT_A), "b:80[all]"),
        (change("VIRTUAL_HOST", "REPLACE", HOST, **AT_A), "c:80[] b:80[all]"),
        (change("VIRTUAL_HOST", "MERGE", {"name": "x"}, **AT_A), "x[old all] b:80[all]"),
        (change("HTTP_ROUTE", "REMOVE", name="81", **OLD), "a:80[old all] b:80[all]"),
        (change("HTTP_ROUTE", "REMOVE", portNumber=80, **OLD), "a:80[all] b:80[all]"),
        (change("HTTP_ROUTE", "REMOVE", portNumber=81, **OLD), "a:80[old all] b:80[all]"),
    ],
)
def test_each_operation_on_routes(patch: dict[str, Any], expected: str) -> None:
    outcome = of_routes([patch])
    assert not outcome.failures
    assert outcome.message is not None
    found = (
        f"{host.name}[{' '.join(each.name for each in host.routes)}]"
        for host in outcome.message.virtual_hosts
    )
    assert " ".join(found) == expected


def test_a_route_configuration_is_merged_into() -> None:
    header = {"header": {"key": "x-a", "value": "b"}}
    patched = of_routes(
        [change("ROUTE_CONFIGURATION", "MERGE", {"request_headers_to_add": [header]})]
    )
    assert patched.message is not None
    assert patched.message.request_headers_to_add[0].header.key == "x-a"


def test_hosts_that_are_added_are_not_patched_by_others() -> None:
    outcome = of_routes([change("VIRTUAL_HOST", "ADD", HOST), change("HTTP_ROUTE", "ADD", MINE)])
    assert outcome.message is not None
    assert [len(each.routes) for each in outcome.message.virtual_hosts] == [3, 2, 0]


@pytest.mark.parametrize(
    ("name", "match", "is_matched"),
    [
        ("http.8080", {"portNumber": 8080}, True),
        ("http.8080", {"portNumber": 80}, True),
        ("http.8080", {"portNumber": 81}, False),
        ("http.8080", {"portName": "https"}, False),
        ("https.443.web.gate.b", {"portNumber": 443, "portName": "web", "gateway": "b/gate"}, True),
        ("https.443.web.gate.b", {"gateway": "gate"}, False),
    ],
)
def test_routes_of_gateways_are_matched(
    name: str, match: dict[str, Any], is_matched: object
) -> None:
    side = RouteSide(Context.GATEWAY, ((80, (8080,)),))
    patch = change("ROUTE_CONFIGURATION", "MERGE", {"most_specific_header_mutations_wins": True})
    patch["match"] = {"context": "GATEWAY", "routeConfiguration": match}
    outcome = of_routes([patch], name, side)
    assert outcome.message is not None
    assert outcome.message.most_specific_header_mutations_wins == is_matched


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (
            change("VIRTUAL_HOST", "ADD", {"name": "d", "domains": ["A.example"]}),
            "two virtual hosts have the domain a.example",
        ),
        (change("ROUTE_CONFIGURATION", "MERGE", {"name": "x"}), 'the name would be "x"'),
    ],
)
def test_what_envoy_would_refuse_of_routes_is_left_out(patch: dict[str, Any], reason: str) -> None:
    outcome = of_routes([patch])
    assert outcome.message is not None
    assert outcome.message == routes()
    assert reason in outcome.failures[0].reason
