"""All resources that gRPC programs without an Envoy are given, in each mode of mutual TLS."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import Documents, entry
from envoy_config.context._context import PushContext
from envoy_config.generate.proxyless._outbound import load_assignment
from envoy_config.plan._proxyless import Target
from headless_services import HOST, HTTP, Pod, headless_service
from istio_config import snapshot_of
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from mesh_model import Endpoint, Facts, MeshModel, Port, Service, build_model
from mesh_testkit import Golden
from proxies import as_json, proxyless

Build = Callable[..., MeshModel]
MESH = (Path(__file__).parent / "proxyless" / "mesh.yaml").read_text()
RULES = (Path(__file__).parent / "proxyless" / "rules.yaml").read_text()
GREETER = "outbound|50051||greeter.shop.svc.cluster.local"
INBOUND = "xds.istio.io/grpc/lds/inbound/"
NAMES = frozenset({"greeter:50051", "api.example.com:443", "idle:50051", f"{INBOUND}10.0.0.1:8443"})


def resources(model: MeshModel) -> dict[str, list[Any]]:
    """What a program gets that follows every name, as gRPC's clients do."""
    context, program = (
        PushContext(model).proxyless,
        proxyless("10.0.0.1", SERVICE_ACCOUNT="greeter"),
    )
    listeners = as_json(context.listeners(program, NAMES))
    routes = frozenset(
        each["api_listener"]["api_listener"]["rds"]["route_config_name"]
        for each in listeners
        if "api_listener" in each
    )
    found = as_json(context.routes(program, routes))
    clusters = frozenset(
        each["virtual_hosts"][0]["routes"][0]["route"]["cluster"] for each in found
    )
    return {
        "listeners": listeners,
        "routes": found,
        "clusters": as_json(context.clusters(program, clusters)),
        "endpoints": as_json(context.endpoints(program, clusters)),
    }


def test_a_program_under_the_default_mode_is_given(model_of: Build, golden: Golden) -> None:
    golden("proxyless.json", resources(model_of(MESH)))


def test_a_program_under_strict_is_given_besides(
    model_of: Build, yaml: Documents, golden: Golden
) -> None:
    strict = resources(model_of(MESH, yaml.peer_authentication("STRICT")))

    golden("proxyless_strict.json", strict, base=resources(model_of(MESH)))


def test_disable_is_plaintext_on_both_sides(model_of: Build, yaml: Documents) -> None:
    disabled = resources(model_of(MESH, yaml.peer_authentication("DISABLE")))

    assert disabled == resources(model_of(MESH))
    assert "transport_socket" not in str(disabled)


@pytest.mark.parametrize(("mode", "mutual"), [("PERMISSIVE", False), ("STRICT", True)])
def test_pods_of_a_headless_service_are_called_as_those_of_any_other(
    model_of: Build, yaml: Documents, mode: str, *, mutual: bool
) -> None:
    pods = (Pod("h-0", "10.0.0.1"), Pod("h-1", "10.0.0.2"), Pod("h-2", "10.0.0.3", not mutual))
    model = model_of(headless_service(pods), yaml.peer_authentication(mode))
    context, name = PushContext(model).proxyless, frozenset({f"outbound|{HTTP}||{HOST}"})

    (cluster,) = as_json(context.clusters(proxyless(), name))
    (assignment,) = as_json(context.endpoints(proxyless(), name))

    assert ("transport_socket" in cluster) is mutual
    assert addresses(assignment) == ["10.0.0.1", "10.0.0.2", *([] if mutual else ["10.0.0.3"])]


def test_without_auto_mtls_clients_speak_plaintext(model_of: Build, yaml: Documents) -> None:
    off = (
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n"
        "spec: {enableAutoMtls: false}\n"
    )
    context = PushContext(model_of(MESH, yaml.peer_authentication("STRICT"), off)).proxyless

    (cluster,) = as_json(context.clusters(proxyless(), frozenset({GREETER})))

    assert "transport_socket" not in cluster


def test_of_endpoints_that_differ_those_stay_that_speak_as_the_cluster_does(
    model_of: Build,
) -> None:
    """One endpoint takes nothing but mutual TLS, so the cluster speaks it."""
    strict = (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        "metadata: {name: one, namespace: shop}\n"
        "spec: {selector: {matchLabels: {app: one}}, mtls: {mode: STRICT}}\n"
    )
    spec = (
        "hosts: [x.shop.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
        "ports: [{number: 80, name: grpc, protocol: GRPC}], "
        "endpoints: [{address: 10.0.0.1, serviceAccount: x, labels: {app: one}}, "
        "{address: 10.0.0.2, serviceAccount: x}, {address: 10.0.0.3}, "
        "{address: 10.0.0.4, serviceAccount: x, labels: {inject.istio.io/templates: grpc-agent}}]"
    )
    context = PushContext(model_of(entry("x", spec, namespace="shop"), strict)).proxyless
    name = frozenset({"outbound|80||x.shop.svc.cluster.local"})

    (cluster,) = as_json(context.clusters(proxyless(), name))
    (assignment,) = as_json(context.endpoints(proxyless(), name))

    assert "transport_socket" in cluster
    assert addresses(assignment) == ["10.0.0.1", "10.0.0.2"]


def addresses(assignment: Any) -> list[str]:
    return [
        each["endpoint"]["address"]["socket_address"]["address"]
        for locality in assignment.get("endpoints", [])
        for each in locality["lb_endpoints"]
    ]


def test_endpoints_that_grpc_would_refuse_are_not_sent(model_of: Build) -> None:
    """An address that stands twice, a Unix socket: it takes the whole assignment or none."""
    spec = (
        "hosts: [x.shop.svc.cluster.local], resolution: STATIC, "
        "ports: [{number: 80, name: grpc, protocol: GRPC}], "
        "endpoints: [{address: 10.0.0.1}, {address: 10.0.0.1, locality: r/z}, "
        "{address: 'unix:///tmp/x'}]"
    )
    context = PushContext(model_of(entry("x", spec, namespace="shop"))).proxyless

    (assignment,) = as_json(
        context.endpoints(proxyless(), frozenset({"outbound|80||x.shop.svc.cluster.local"}))
    )

    assert addresses(assignment) == ["10.0.0.1"]
    assert assignment["endpoints"][0]["load_balancing_weight"] == 2


EMPTY = build_model(Facts(snapshot=snapshot_of([])))
PORT = Port(number=80, name="grpc", protocol=Protocol.GRPC, target=80)
ENDPOINTS = st.lists(
    st.builds(
        Endpoint,
        address=st.integers(1, 5).map("10.0.0.{}".format),
        ports=st.sampled_from([(), (("grpc", 81),)]),
        namespace=st.just("shop"),
        locality=st.sampled_from(["", "r", "r/z", "r/z/s"]),
        weight=st.one_of(st.integers(0, 3), st.just(2**32 - 1)),
    ),
    max_size=8,
)


@given(ENDPOINTS)
def test_assignments_keep_grpc_s_rules_and_the_weights(endpoints: list[Endpoint]) -> None:
    """No place twice, no locality twice, weights of all localities within 32 bits (gRFC A27)."""
    service = Service(
        host="x.shop.svc.cluster.local",
        namespace="shop",
        name="x",
        ports=(PORT,),
        endpoints=tuple(endpoints),
        resolution=Resolution.STATIC,
        external=False,
    )
    assignment = load_assignment(Target(service, PORT), EMPTY)

    localities = [
        (each.locality.region, each.locality.zone, each.locality.sub_zone)
        for each in assignment.endpoints
    ]
    places = {
        (
            each.endpoint.address.socket_address.address,
            each.endpoint.address.socket_address.port_value,
        )
        for locality in assignment.endpoints
        for each in locality.lb_endpoints
    }
    assert len(localities) == len(set(localities))
    assert len(places) == sum(len(each.lb_endpoints) for each in assignment.endpoints)
    assert places == {(each.address, each.port_for(PORT)) for each in endpoints}
    weights = [each.load_balancing_weight.value for each in assignment.endpoints]
    assert all(weights)
    assert sum(weights) < 2**32
    if all(each.weight <= 3 for each in endpoints):
        assert sum(weights) == sum(each.weight or 1 for each in endpoints)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("greeter:50051", True),
        ("greeter.shop:50051", True),
        ("greeter.shop.svc:50051", True),
        ("greeter.shop.svc.cluster.local:50051", True),
        ("GREETER.shop:50051", True),
        ("greeter.other:50051", False),
        ("greeter.shop.svc.cluster:50051", False),
    ],
)
def test_short_names_mean_what_they_do_in_dns(model_of: Build, name: str, *, means: bool) -> None:
    context = PushContext(model_of(MESH)).proxyless

    found = as_json(context.listeners(proxyless(), frozenset({name})))

    assert [each["name"] for each in found] == ([name] if means else [])


def test_a_service_of_another_namespace_has_its_namespace_in_its_name(model_of: Build) -> None:
    context = PushContext(model_of(MESH)).proxyless
    elsewhere = proxyless(namespace="away")
    names = frozenset({"greeter:50051", "greeter.shop:50051"})

    (found,) = as_json(context.listeners(elsewhere, names))

    assert found["name"] == "greeter.shop:50051"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("greeter", "the name is not HOST:PORT"),
        (":50051", "the name is not HOST:PORT"),
        ("greeter:x", "the name is not HOST:PORT"),
        ("greeter:" + "9" * 6000, "the name is not HOST:PORT"),
        ("unknown:1", "no service that namespace shop sees has the host unknown"),
        (
            "greeter:50052",
            "the service greeter.shop.svc.cluster.local has no TCP port 50052, but 50051",
        ),
        ("any.shop.svc.cluster.local:80", "resolution NONE, which gRPC can't follow"),
        ("two.example.com:80", "is found by DNS and has 2 endpoints: gRPC takes exactly one"),
        (f"{INBOUND}web:80", f"the name is not {INBOUND}ADDRESS:PORT"),
        (f"{INBOUND}10.0.0.1", f"the name is not {INBOUND}ADDRESS:PORT"),
        (
            f"{INBOUND}10.0.0.1:1",
            "no service of namespace shop has an endpoint at 10.0.0.1 with port 1",
        ),
    ],
)
def test_a_name_without_a_listener_is_reported_with_the_reason(
    model_of: Build, name: str, reason: str
) -> None:
    ports = "ports: [{number: 80, name: grpc, protocol: GRPC}]"
    none = entry(
        "any", f"hosts: [any.shop.svc.cluster.local], resolution: NONE, {ports}", namespace="shop"
    )
    two = entry(
        "two",
        f"hosts: [two.example.com], resolution: DNS, {ports}, "
        "endpoints: [{address: a.example.com}, {address: b.example.com}]",
        namespace="shop",
    )
    context = PushContext(model_of(MESH, none, two)).proxyless

    assert not context.listeners(proxyless(), frozenset({name})).resources
    ((unserved, why),) = context.not_served(proxyless(), {name})
    assert unserved == name
    assert reason in why


def test_a_server_on_ipv6_gets_the_address_that_it_listens_on(model_of: Build) -> None:
    context = PushContext(model_of(MESH)).proxyless

    (found,) = as_json(context.listeners(proxyless(), frozenset({f"{INBOUND}[::]:8443"})))

    assert found["address"]["socket_address"] == {"address": "::", "port_value": 8443}


def test_a_service_without_endpoints_is_there_and_has_none(model_of: Build) -> None:
    context = PushContext(model_of(MESH)).proxyless
    name = frozenset({"outbound|50051||idle.shop.svc.cluster.local"})

    assert as_json(context.clusters(proxyless(), name))
    (assignment,) = as_json(context.endpoints(proxyless(), name))
    assert "endpoints" not in assignment


def test_names_that_are_no_cluster_s_are_left_out(model_of: Build) -> None:
    context = PushContext(model_of(MESH)).proxyless
    for name in ("", "greeter", "outbound|1||greeter.shop.svc.cluster.local", f"{GREETER}|x"):
        wanted = frozenset({name})
        for find in (context.routes, context.clusters, context.endpoints):
            assert not find(proxyless(), wanted).resources


def test_programs_of_one_namespace_share_what_they_call(model_of: Build) -> None:
    context = PushContext(model_of(MESH)).proxyless
    one, two = proxyless("10.0.1.1"), proxyless("10.0.1.2")
    name = frozenset({"greeter:50051"})

    (first,), (second,) = (context.listeners(each, name).resources for each in (one, two))

    assert first is second


def test_routes_and_subsets_follow_the_rules(model_of: Build) -> None:
    context, program = PushContext(model_of(MESH, RULES)).proxyless, proxyless("10.0.0.9")
    (route,) = as_json(context.routes(program, frozenset({GREETER})))
    slow, shared = route["virtual_hosts"][0]["routes"]
    v1, v2 = (GREETER.replace("||", f"|{subset}|") for subset in ("v1", "v2"))
    assert slow["match"] == {"path": "/greeter.Greeter/Slow"}
    assert slow["route"]["cluster"] == v2
    assert slow["route"]["max_stream_duration"] == {"max_stream_duration": "2s"}
    assert slow["route"]["hash_policy"] == [{"header": {"header_name": "x-user"}}]
    assert shared["route"]["weighted_clusters"] == {
        "clusters": [{"name": v1, "weight": 3}, {"name": v2, "weight": 1}]
    }
    assert "envoy.filters.http.fault" in shared["typed_per_filter_config"]
    first, second = as_json(context.clusters(program, frozenset({v1, v2})))
    assert first["circuit_breakers"]["thresholds"] == [{"max_requests": 7}]
    assert first["outlier_detection"]["failure_percentage_request_volume"] == 3
    assert (first.get("lb_policy"), second["lb_policy"]) == (None, "RING_HASH")


def test_a_subset_has_the_endpoints_of_its_labels(model_of: Build) -> None:
    labelled = MESH.replace(
        "serviceAccount: greeter", "serviceAccount: greeter, labels: {version: v1}", 1
    )
    assert labelled != MESH
    context, program = PushContext(model_of(labelled, RULES)).proxyless, proxyless("10.0.0.9")
    v1, v2 = (GREETER.replace("||", f"|{subset}|") for subset in ("v1", "v2"))
    one, none = as_json(context.endpoints(program, frozenset({v1, v2})))
    assert sum(len(each["lb_endpoints"]) for each in one["endpoints"]) == 1
    assert "endpoints" not in none
