"""Services select pods and WorkloadEntries by labels, in their own namespace."""

from dataclasses import replace
from typing import Any

import pytest

from istio_config import ConfigObject
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY
from mesh_model._services import Endpoint, Health, Service
from mesh_model._visibility import NO_OWNERS
from mesh_model.registry._service_registry import build_registry
from mesh_objects import object_of, pod, service, service_entry, slice_of, snapshot, workload_entry
from mesh_settings import DOMAIN

APP = {"app": "a"}
SELECTS: dict[str, Any] = {"workloadSelector": {"labels": APP}}


def only(*objects: ConfigObject) -> Service:
    (found,) = build_registry(snapshot(objects), domain=DOMAIN, owners=NO_OWNERS).services
    return found


def places(found: Service) -> list[tuple[str, int]]:
    (port,) = found.ports
    return [(each.address, each.port_for(port)) for each in found.endpoints_of(port)]


def test_without_slices_a_service_has_the_pods_that_it_selects() -> None:
    pods = [
        pod("10.0.0.1", APP),
        pod("10.0.0.2", APP, ready=False),
        pod("10.0.0.3", APP, phase="Succeeded"),
        pod("10.0.0.4", {"app": "b"}),
        pod("10.0.0.5", APP, namespace="other"),
    ]
    found = only(service("web", selector=APP), *pods)

    assert [(each.address, each.health) for each in found.endpoints] == [
        ("10.0.0.1", Health.HEALTHY),
        ("10.0.0.2", Health.UNHEALTHY),
    ]


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    ending = replace(pod("10.0.0.1", APP), is_ending=True)
    by_slice = only(service("web", selector=APP), ending)
    by_selector = only(service_entry("web", "web.test", **SELECTS), ending)

    assert [each.health for each in by_slice.endpoints] == [Health.TERMINATING]
    assert by_selector.endpoints == ()


def test_pods_that_are_not_ready_are_healthy_where_the_service_publishes_them() -> None:
    found = only(
        service("web", selector=APP, publishNotReadyAddresses=True),
        pod("10.0.0.2", APP, ready=False),
    )

    assert [each.health for each in found.endpoints] == [Health.HEALTHY]


@pytest.mark.parametrize(
    ("target", "wanted"), [("web", [8081]), (9999, [9999]), (None, [80]), ("no-such-port", [])]
)
def test_the_target_port_is_a_number_or_the_name_of_a_port_of_the_pod(
    target: str | int | None, wanted: list[int]
) -> None:
    port = {"name": "http", "port": 80, "targetPort": target}

    found = only(service("web", selector=APP, ports=[port]), pod("10.0.0.1", APP))

    assert [number for _, number in places(found)] == wanted


def test_a_service_without_a_selector_has_no_pods() -> None:
    assert only(service("web"), pod("10.0.0.1", APP)).endpoints == ()


def test_slices_come_before_selected_pods() -> None:
    found = only(service("web", selector=APP), slice_of("web", "10.9.0.1"), pod("10.0.0.1", APP))

    assert [each.address for each in found.endpoints] == ["10.9.0.1"]


@pytest.mark.parametrize(
    ("target", "ports", "wanted"),
    [
        (8080, {}, [("10.5.0.1", 8080)]),
        (8080, {"http": 7000}, [("10.5.0.1", 7000)]),
        ("web", {"web": 7001}, [("10.5.0.1", 7001)]),
        ("web", {}, []),
    ],
)
def test_a_kubernetes_service_selects_workload_entries_as_it_does_pods(
    target: str | int, ports: dict[str, int], wanted: list[tuple[str, int]]
) -> None:
    entry = workload_entry("vm", "10.5.0.1", labels=APP, ports=ports, serviceAccount="vm")
    other = workload_entry("elsewhere", "10.5.0.2", labels=APP, namespace="other")
    port = {"name": "http", "port": 80, "targetPort": target}

    found = only(service("web", selector=APP, ports=[port]), entry, other)

    assert places(found) == wanted
    assert all(each.speaks_mutual_tls for each in found.endpoints)


def test_a_service_entry_selects_ready_pods_and_workload_entries_pods_first() -> None:
    found = only(
        service_entry("web", "web.test", **SELECTS),
        workload_entry("a", "10.5.0.1", labels=APP),
        pod("10.0.0.2", APP),
        pod("10.0.0.1", APP),
        pod("10.0.0.3", APP, ready=False),
    )

    assert places(found) == [("10.0.0.1", 8080), ("10.0.0.2", 8080), ("10.5.0.1", 8080)]


@pytest.mark.parametrize(
    ("resolution", "wanted"),
    [
        ("STATIC", ["10.5.0.1", "unix:///run/app.sock"]),
        ("DNS", ["10.5.0.1", "vm.test"]),
    ],
)
def test_workload_entries_join_services_that_can_reach_their_kind_of_address(
    resolution: str, wanted: list[str]
) -> None:
    addresses = ["10.5.0.1", "vm.test", "unix:///run/app.sock"]
    entries = [workload_entry(f"w{at}", each, labels=APP) for at, each in enumerate(addresses)]

    found = only(service_entry("web", "web.test", resolution=resolution, **SELECTS), *entries)

    assert [each.address for each in found.endpoints] == wanted


def entry_of(*, annotated: bool = True, condition: str | None = None) -> ConfigObject:
    annotations = {"proxy.istio.io/health-checks-enabled": "true"} if annotated else {}
    conditions = [] if condition is None else [{"type": "Healthy", "status": condition}]
    return object_of(
        WORKLOAD_ENTRY,
        "vm",
        {"address": "10.5.0.1", "labels": {**APP, "v": "spec"}},
        labels={"v": "metadata"},
        annotations=annotations,
        status={"conditions": conditions},
    )


def endpoint_of(item: ConfigObject) -> Endpoint:
    (found,) = only(service_entry("web", "web.test", **SELECTS), item).endpoints
    return found


@pytest.mark.parametrize(
    ("item", "health"),
    [
        (entry_of(annotated=False), Health.HEALTHY),
        (entry_of(annotated=False, condition="False"), Health.HEALTHY),
        (entry_of(condition="True"), Health.HEALTHY),
        (entry_of(condition="False"), Health.UNHEALTHY),
        (entry_of(condition=None), Health.UNHEALTHY),
    ],
)
def test_a_health_checked_workload_entry_is_healthy_only_if_its_condition_says_so(
    item: ConfigObject, health: Health
) -> None:
    assert endpoint_of(item).health is health


def test_labels_of_the_metadata_win_over_those_of_the_spec() -> None:
    assert dict(endpoint_of(entry_of()).labels) == {**APP, "v": "metadata"}


@pytest.mark.parametrize(
    ("given", "labels", "wanted"),
    [
        ("a/b/c", {"istio-locality": "x.y"}, "a/b/c"),
        ("", {"istio-locality": "x.y.z"}, "x/y/z"),
        ("", {}, ""),
    ],
)
def test_the_locality_of_a_workload_entry_is_given_or_taken_from_a_label(
    given: str, labels: dict[str, str], wanted: str
) -> None:
    entry = workload_entry("vm", "10.5.0.1", labels={**APP, **labels}, locality=given)

    assert endpoint_of(entry).locality == wanted


def test_the_label_of_a_network_wins_over_the_field() -> None:
    labels = {**APP, "topology.istio.io/network": "n2"}

    assert (
        endpoint_of(workload_entry("vm", "10.5.0.1", labels=labels, network="n1")).network == "n2"
    )
    assert endpoint_of(workload_entry("vm", "10.5.0.1", labels=APP, network="n1")).network == "n1"
