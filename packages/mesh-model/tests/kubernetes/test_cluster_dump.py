"""A dump of a cluster becomes services and endpoints."""

from collections.abc import Callable

import pytest

from documents import CLUSTER_DUMP
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from mesh_model import Endpoint, Health, MeshModel, Registry, Service


@pytest.fixture
def service(model_of: Callable[..., MeshModel]) -> Callable[[str], Service]:
    model = model_of(CLUSTER_DUMP.read_text())

    def find(name: str, namespace: str = "shop") -> Service:
        return model.by_key[namespace, f"{name}.{namespace}.svc.cluster.local"]

    return find


Find = Callable[..., Service]


def endpoint(service: Service, address: str) -> Endpoint:
    (found,) = (each for each in service.endpoints if each.address == address)
    return found


def test_a_service_has_its_addresses_ports_and_settings(service: Find) -> None:
    web = service("web")

    assert web.registry is Registry.KUBERNETES
    assert web.resolution is Resolution.STATIC
    assert not web.external
    assert web.addresses == ("10.96.7.1", "fd00:10:96::7")
    assert [(port.number, port.name, port.protocol) for port in web.ports] == [
        (80, "http", Protocol.HTTP),
        (9000, "admin", Protocol.HTTP2),
        (8125, "stats", Protocol.UDP),
    ]
    assert web.export_to == ("shop", "istio-system")
    assert web.selector == (("app", "web"),)
    assert web.is_node_local
    assert web.traffic_distribution == "PreferClose"
    assert (web.session_cookie, web.keeps_sessions) == ("session", True)


def test_a_pod_with_an_address_of_each_family_is_one_endpoint(service: Find) -> None:
    assert [each.address for each in service("web").endpoints] == [
        "10.1.1.10",
        "10.1.2.10",
        "10.1.2.11",
        "10.1.2.12",
    ]


@pytest.mark.parametrize(
    ("address", "health"),
    [
        ("10.1.1.10", Health.HEALTHY),
        ("10.1.2.10", Health.UNHEALTHY),
        ("10.1.2.11", Health.DRAINING),
        ("10.1.2.12", Health.TERMINATING),
    ],
)
def test_the_conditions_of_an_endpoint_say_its_health(
    address: str, health: Health, service: Find
) -> None:
    assert endpoint(service("web"), address).health is health


def test_an_endpoint_has_what_its_pod_and_its_node_say(service: Find) -> None:
    web = service("web")
    first, second = endpoint(web, "10.1.1.10"), endpoint(web, "10.1.2.10")

    assert dict(first.labels)["version"] == "v1"
    assert first.service_account == "web"
    assert first.workload == "web"
    assert first.node == "node-a"
    assert (first.locality, second.locality) == ("north/north-1", "north/lab/rack-1")
    assert endpoint(web, "10.1.2.12").locality == "north/north-2/rack-7"
    assert (first.network, endpoint(web, "10.1.2.11").network) == ("n1", "n9")


def test_a_pod_speaks_mutual_tls_only_if_its_label_says_so(service: Find) -> None:
    web = service("web")

    assert endpoint(web, "10.1.1.10").speaks_mutual_tls
    assert not endpoint(web, "10.1.2.10").speaks_mutual_tls


def test_endpoints_serve_the_ports_that_their_slice_has(service: Find) -> None:
    web = service("web")
    http, admin, stats = web.ports

    assert {each.port_for(http) for each in web.endpoints_of(http)} == {8080}
    assert {each.port_for(admin) for each in web.endpoints_of(admin)} == {9000}
    assert web.endpoints_of(stats) == ()


def test_endpoints_objects_serve_where_there_is_no_slice(service: Find) -> None:
    kubernetes = service("kubernetes", "default")
    (found,) = kubernetes.endpoints

    assert (found.address, found.port_for(kubernetes.ports[0])) == ("172.18.0.2", 6443)


def test_a_headless_service_leads_to_its_endpoints_which_have_names(service: Find) -> None:
    db = service("db")

    assert db.is_headless
    assert db.resolution is Resolution.NONE
    assert db.addresses == ()
    assert [(each.address, each.hostname) for each in db.endpoints] == [
        ("10.1.1.20", "db-0"),
        ("10.1.2.20", "db-1"),
    ]


def test_an_external_name_of_the_mesh_is_another_name_of_that_service(service: Find) -> None:
    assert service("web").aliases == (("shop", "shopfront.shop.svc.cluster.local"),)
    with pytest.raises(KeyError):
        service("shopfront")


def test_an_external_name_outside_the_mesh_is_found_by_dns(service: Find) -> None:
    weather = service("weather")

    assert weather.external
    assert weather.resolution is Resolution.DNS
    assert [each.address for each in weather.endpoints] == ["api.weather.example.com"]


def test_an_empty_slice_leaves_a_service_without_endpoints(service: Find) -> None:
    assert service("nothing").endpoints == ()
