"""Changes of endpoints: what is sent of them, and to whom."""

from pathlib import Path

import pytest
from envoy.config.core.v3.health_check_pb2 import HealthStatus

from documents import document
from envoy_config import Proxy
from pushed_meshes import Mesh, service, sidecar

WEB = "outbound|80||web.a.svc.cluster.local"


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    return Mesh(tmp_path, web=service("web", "10.1.0.1"), db=service("db", "10.1.0.2"))


@pytest.fixture
def client(mesh: Mesh) -> Proxy:
    mesh.connect(proxy := sidecar())
    return proxy


def addresses(mesh: Mesh, client: Proxy, cluster: str = WEB) -> list[tuple[str, int]]:
    return [
        (each.endpoint.address.socket_address.address, each.load_balancing_weight.value)
        for group in mesh.assignment(client, cluster).endpoints
        for each in group.lb_endpoints
    ]


def weighted(weight: int, address: str = "10.1.0.1") -> str:
    return service("web", address).replace(
        f"address: {address}", f"address: {address}, weight: {weight}"
    )


def test_a_new_weight_or_address_is_sent_of_its_cluster_alone(mesh: Mesh, client: Proxy) -> None:
    change = mesh.change(web=weighted(7))
    assert change.sent_to(client) == {"EDS"}
    assert change.resources[client] == {f"EDS {WEB}"}
    assert addresses(mesh, client) == [("10.1.0.1", 7)]
    assert mesh.change(web=weighted(7, "10.1.0.9")).resources[client] == {f"EDS {WEB}"}
    assert addresses(mesh, client) == [("10.1.0.9", 7)]


def test_the_last_endpoint_goes_and_comes_back(mesh: Mesh, client: Proxy) -> None:
    account = service("web", "10.1.0.1", account="").replace(", serviceAccount: ", "")
    mesh.change(web=account)
    none = account.replace("{address: 10.1.0.1}", "")

    assert mesh.change(web=none).sent_to(client) == {"EDS"}
    assert addresses(mesh, client) == []
    assert mesh.change(web=account).sent_to(client) == {"EDS"}
    assert addresses(mesh, client) == [("10.1.0.1", 1)]


def test_with_a_service_its_endpoints_are_gone(mesh: Mesh, client: Proxy) -> None:
    change = mesh.change(web=None)
    assert {f"CDS {WEB}", f"EDS {WEB}"} <= change.resources[client]
    assert WEB not in mesh.clusters(client)
    assert not [name for name in change.resources[client] if "db" in name]


def test_another_account_is_pushed_to_those_who_check_it_and_the_same_is_not(
    mesh: Mesh, client: Proxy
) -> None:
    change = mesh.change(web=service("web", "10.1.0.1", "10.1.0.9"))
    assert change.sent_to(client) == {"EDS"}
    change = mesh.change(web=service("web", "10.1.0.1", "10.1.0.9", account="other"))
    assert f"CDS {WEB}" in change.resources[client]


def test_two_ports_with_one_target_have_an_assignment_each(mesh: Mesh, client: Proxy) -> None:
    ports = (
        "{number: 80, name: http, protocol: HTTP, targetPort: 8080}, "
        "{number: 81, name: http-two, protocol: HTTP, targetPort: 8080}"
    )
    mesh.change(web=service("web", "10.1.0.1", port=ports))
    for cluster in (WEB, WEB.replace("80", "81")):
        (group,) = mesh.assignment(client, cluster).endpoints
        (endpoint,) = group.lb_endpoints
        assert endpoint.endpoint.address.socket_address.port_value == 8080


def test_a_service_that_is_looked_up_has_no_endpoints_to_ask_for(mesh: Mesh, client: Proxy) -> None:
    by_name = service("web", "web.example").replace("STATIC", "DNS")
    change = mesh.change(web=by_name)
    assert f"CDS {WEB}" in change.resources[client]
    with pytest.raises(KeyError):
        mesh.assignment(client, WEB)
    assert f"CDS {WEB}" in mesh.change(web=service("web", "10.1.0.1")).resources[client]
    assert addresses(mesh, client) == [("10.1.0.1", 1)]


def test_a_locality_weighs_as_much_as_its_endpoints_together(mesh: Mesh, client: Proxy) -> None:
    places = (
        "{address: 10.1.0.1, weight: 3, locality: r1/z1}, "
        "{address: 10.1.0.2, weight: 4, locality: r1/z1}, {address: 10.1.0.3, locality: r2}"
    )
    listed = service("web").replace("{address: 10.1.0.1, serviceAccount: s}", places)
    mesh.change(web=listed)
    assert {
        (each.locality.region, each.locality.zone): each.load_balancing_weight.value
        for each in mesh.assignment(client, WEB).endpoints
    } == {("r1", "z1"): 7, ("r2", ""): 1}


CLUSTER_SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: k, namespace: a}
spec: {clusterIP: 10.96.0.7, ports: [{name: http, port: 80, targetPort: 8080}]}
"""


def slice_of(*, ready: bool) -> str:
    return (
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
        "metadata: {name: k-1, namespace: a, labels: {kubernetes.io/service-name: k}}\n"
        "addressType: IPv4\nports: [{name: http, port: 8080}]\n"
        f"endpoints: [{{addresses: [10.1.0.1], conditions: {{ready: {str(ready).lower()}}}}}, "
        "{addresses: [10.1.0.2], conditions: {ready: true}}]\n"
    )


def test_an_endpoint_that_is_not_ready_is_sent_as_unhealthy_and_comes_back(
    mesh: Mesh, client: Proxy
) -> None:
    cluster = "outbound|80||k.a.svc.cluster.local"

    def health() -> dict[str, str]:
        (group,) = mesh.assignment(client, cluster).endpoints
        return {
            each.endpoint.address.socket_address.address: HealthStatus.Name(each.health_status)
            for each in group.lb_endpoints
        }

    mesh.change(k=CLUSTER_SERVICE, k_1=slice_of(ready=True))
    assert set(health().values()) <= {"UNKNOWN", "HEALTHY"}
    assert mesh.change(k_1=slice_of(ready=False)).sent_to(client) == {"EDS"}
    assert health()["10.1.0.1"] == "UNHEALTHY"
    assert mesh.change(k_1=slice_of(ready=True)).sent_to(client) == {"EDS"}
    assert set(health().values()) <= {"UNKNOWN", "HEALTHY"}


PASSED_ON = document(
    "DestinationRule",
    "passed-on",
    "{host: web, trafficPolicy: {loadBalancer: {simple: PASSTHROUGH}}}",
)


def test_an_endpoint_that_takes_no_mutual_tls_is_pushed_to_those_who_call_all_alike(
    mesh: Mesh,
) -> None:
    redirected = sidecar()
    mesh.connect(redirected)
    mesh.change(rule=PASSED_ON)
    plain = service("web", "10.1.0.1").replace(
        "address: 10.1.0.1", "address: 10.1.0.1, labels: {security.istio.io/tlsMode: disabled}"
    )

    assert mesh.change(web=plain).sent_to(redirected) == {"CDS"}
    assert mesh.change(web=service("web", "10.1.0.1")).sent_to(redirected) == {"CDS"}
