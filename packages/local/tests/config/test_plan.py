from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_local import (
    AddressError,
    Block,
    ConfigurationError,
    MeshFile,
    MeshPlan,
    mesh_config,
    mesh_documents,
    plan_mesh,
)
from mesh_local.config._addresses import Inside, RedirectedBlock
from mesh_local.config._plan import gateway_endpoints, needed_endpoints
from mesh_local.state._istio import instance_labels, to_yaml
from mesh_testkit import Golden


def test_the_mesh_as_istio_configuration(plan: MeshPlan, golden: Golden) -> None:
    golden("config.yaml", to_yaml([mesh_config(plan), *mesh_documents(plan)]))


def test_replicas_share_an_identity_and_have_addresses_of_their_own(plan: MeshPlan) -> None:
    first, second = plan.instances_of("backend")
    assert first.spiffe_id == second.spiffe_id == "spiffe://example.org/ns/shop/sa/backend"
    assert first.addresses.inbound != second.addresses.inbound
    assert plan.with_identity("spiffe://example.org/ns/shop/sa/web")[0].name == "frontend"


def test_a_service_is_found_by_each_of_its_names(plan: MeshPlan) -> None:
    for host in ("backend", "backend.shop", "backend.shop.svc.cluster.local"):
        assert [each.name for each in plan.serving(host, 8080)] == ["backend-1", "backend-2"]
    assert plan.serving("backend", 1) == ()


def test_a_proxyless_program_listens_where_others_reach_it(parse: Callable[..., MeshFile]) -> None:
    file = parse(
        "workloads:\n- {name: a, proxyless: true, command: [x], "
        "ports: [{port: 50051, protocol: grpc}]}\n- {name: b, ports: [{port: 80}]}\n"
    )
    plan = plan_mesh(file, Block(number=64))
    addresses = plan.instances[0].addresses
    assert addresses.app == addresses.outbound == addresses.inbound == "127.64.1.1"
    labels = {each.name: instance_labels(each) for each in plan.instances}
    assert labels["a"] == {
        "app": "a",
        "mesh-local/workload": "a",
        "inject.istio.io/templates": "grpc-agent",
    }
    assert labels["b"] == {"app": "b", "mesh-local/workload": "b"}
    needed = list(needed_endpoints(plan))
    assert ("127.64.1.1", 50051) in needed
    assert len(needed) == len(set(needed))
    assert not [host for host, _ in needed if host in ("127.64.1.2", "127.64.1.3")]


def test_every_port_of_the_mesh_is_looked_at_once(plan: MeshPlan) -> None:
    needed = list(needed_endpoints(plan))
    assert len(needed) == len(set(needed))
    assert ("127.64.0.1", 15012) in needed
    assert ("127.64.1.1", 15021) in needed
    assert ("127.64.1.2", 9000) in needed
    assert ("127.64.1.1", 15053) in needed
    assert ("127.64.4.3", 15002) in needed


def test_workloads_of_one_service_are_its_versions_and_places(
    parse: Callable[..., MeshFile],
) -> None:
    file = parse(
        "workloads:\n"
        "- {name: r-1, service: r, version: v1, locality: north/a, ports: [{port: 80}]}\n"
        "- {name: r-2, service: r, version: v2, ports: [{port: 80}]}\n"
    )
    plan = plan_mesh(file, Block(number=64))
    entry, first, second = mesh_documents(plan)[1:]
    assert entry["kind"] == "ServiceEntry"
    assert entry["spec"]["workloadSelector"] == {"labels": {"app": "r"}}  # type: ignore[index]
    assert first["spec"] == {
        "address": "127.64.1.1",
        "labels": {
            "app": "r",
            "mesh-local/workload": "r-1",
            "version": "v1",
            "istio-locality": "north.a",
        },
        "serviceAccount": "r-1",
        "locality": "north/a",
    }
    labels = {"app": "r", "mesh-local/workload": "r-2", "version": "v2"}
    assert second["spec"]["labels"] == labels  # type: ignore[index]
    assert [each.name for each in plan.serving("r", 80)] == ["r-1", "r-2"]


def test_a_gateway_has_its_address_outside_of_the_mesh_and_is_no_service(
    parse: Callable[..., MeshFile],
) -> None:
    file = parse("workloads:\n- {name: g, gateway: {ports: [8080]}}\n- {name: a}\n")
    plan = plan_mesh(file, Block(number=64))
    assert [place for _, place in gateway_endpoints(file)] == [("127.0.0.1", 8080)]
    assert [each["kind"] for each in mesh_documents(plan)] == [
        "PeerAuthentication",
        "WorkloadEntry",  # by which the control plane knows the gateway's account
        "WorkloadEntry",
    ]
    assert instance_labels(plan.instances[0])["istio"] == "ingressgateway"
    assert not [port for host, port in needed_endpoints(plan) if host == "127.64.1.3"]


def test_replicas_that_run_keep_their_addresses_and_no_other_gets_them(
    parse: Callable[..., MeshFile],
) -> None:
    before = plan_mesh(parse("workloads: [{name: a}, {name: b}, {name: c}]"), Block(number=64))
    positions = {each.name: each.position for each in before.instances}
    file = parse("workloads: [{name: d}, {name: c}, {name: a, replicas: 2}]")
    after = plan_mesh(file, Block(number=64), positions=positions)
    assert {each.name: each.position for each in after.instances} == {
        "d": 4,
        "c": 3,
        "a-1": 5,
        "a-2": 6,
    }
    assert after.instances[1].addresses == before.instances[2].addresses


def test_a_replica_that_gets_no_address_is_reported(parse: Callable[..., MeshFile]) -> None:
    positions = {f"b-{number}": number for number in range(1, 255)}
    file = parse("workloads: [{name: a, replicas: 2}]")
    with pytest.raises(AddressError, match="a gets no address: 255 replicas run or still stop"):
        plan_mesh(file, Block(number=64), positions=positions)


def test_a_redirected_workload_has_a_network_with_one_address(shop: MeshFile) -> None:
    plan = plan_mesh(shop, RedirectedBlock(folder=Path("/state/networks")))
    frontend = plan.instances_of("frontend")[0].addresses
    assert (frontend.inbound, frontend.app) == ("10.77.3.1", "10.77.3.1")
    assert frontend.agent == Inside("/state/networks/3", "127.0.0.1")
    assert frontend.program == Inside("/state/networks/3", "10.77.3.1")


def test_ports_of_redirected_workloads_are_free_on_every_machine(shop: MeshFile) -> None:
    plan = plan_mesh(shop, RedirectedBlock(folder=Path("/state/networks")))
    assert set(needed_endpoints(plan)) == {("10.77.0.1", 15012), ("127.0.0.1", 15014)}


def test_a_redirected_mesh_as_istio_configuration(shop: MeshFile, golden: Golden) -> None:
    plan = plan_mesh(shop, RedirectedBlock(folder=Path("/state/networks")))
    golden("redirected_config.yaml", to_yaml([mesh_config(plan), *mesh_documents(plan)]))


def test_what_has_no_network_of_its_own_can_t_be_redirected(
    parse: Callable[[str], MeshFile],
) -> None:
    file = parse(
        "workloads:\n- name: a\n  gateway: {ports: [80]}\n- name: b\n  proxyless: true\n- name: c\n"
    )
    with pytest.raises(ConfigurationError) as refused:
        plan_mesh(file, RedirectedBlock(folder=Path("/state/networks")))
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"{file.path}:3: workloads[0].gateway: a listens on")
    assert second.startswith(f"{file.path}:5: workloads[1].proxyless: b has no Envoy")
    assert first.endswith("run the mesh without it, or leave the workload out")
