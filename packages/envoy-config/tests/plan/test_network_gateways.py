"""Endpoints of other networks are reached by the gateways there, with all their weight."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_config.plan.endpoints._network_gateways import through_gateways
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from mesh_model import Endpoint, Health, NetworkGateway, Networks, Port, Service

PORT = Port(number=80, name="http", protocol=Protocol.HTTP, target=8080)
ONE, TWO = NetworkGateway("n2", "192.0.2.1", 15443), NetworkGateway("n2", "192.0.2.2", 15443)
NAMED = NetworkGateway("n2", "gw.example.com", 15443)
N2 = Networks(gateways={"n2": (ONE,)})


def endpoint(address: str, network: str = "", weight: int = 0, locality: str = "") -> Endpoint:
    return Endpoint(
        address=address,
        ports=(),
        namespace="b",
        network=network,
        weight=weight,
        locality=locality,
        service_account="s",
    )


def ways(
    *endpoints: Endpoint, networks: Networks = N2, network: str = "n1", by_name: bool = False
) -> list[tuple[str, int, int]]:
    """Return address, port and weight of each way to a service."""
    found = through_gateways(
        endpoints,
        service_of(*endpoints),
        PORT,
        networks,
        network=network,
        by_name=by_name,
        takes_mutual_tls=lambda each: bool(each.service_account),
    )
    return [(each.address, each.port_for(PORT), each.weight) for each in found]


def service_of(*endpoints: Endpoint) -> Service:
    return Service(
        host="s.b.svc.cluster.local",
        namespace="b",
        name="s",
        ports=(PORT,),
        endpoints=endpoints,
        resolution=Resolution.STATIC,
        external=False,
    )


NEAR, FAR = endpoint("10.1.0.1", "n1"), endpoint("10.2.0.1", "n2")


def test_a_gateway_has_the_weight_of_the_endpoints_behind_it() -> None:
    assert ways(NEAR, FAR, endpoint("10.2.0.2", "n2", weight=3)) == [
        ("10.1.0.1", 8080, 1),
        ("192.0.2.1", 15443, 4),
    ]


@pytest.mark.parametrize(
    ("of", "client", "is_direct"),
    [
        ("n2", "n2", True),
        ("n2", "n1", False),
        ("n2", "", False),
        ("", "n1", True),
        ("", "", True),
        ("n3", "n1", True),
    ],
)
def test_an_endpoint_is_reached_directly_if_its_network_is_the_clients_or_has_no_gateway(
    of: str, client: str, *, is_direct: bool
) -> None:
    found = ways(endpoint("10.9.0.1", of), FAR, network=client)

    assert (found[0][0] == "10.9.0.1") is is_direct


def test_an_endpoint_without_mutual_tls_is_not_reached_from_another_network() -> None:
    plain = replace(FAR, service_account="")

    assert ways(NEAR, plain) == [("10.1.0.1", 8080, 1)]
    assert ways(plain, network="n2") == [("10.2.0.1", 8080, 1)]


def test_an_unhealthy_endpoint_adds_nothing_to_the_weight_of_its_gateway() -> None:
    assert ways(FAR, replace(FAR, health=Health.UNHEALTHY)) == [("192.0.2.1", 15443, 1)]


def test_gateways_of_each_locality_follow_its_endpoints() -> None:
    found = through_gateways(
        (endpoint("10.2.0.1", "n2", locality="b"), endpoint("10.2.0.2", "n2", locality="a")),
        service_of(FAR),
        PORT,
        N2,
        network="n1",
        by_name=False,
        takes_mutual_tls=lambda _: True,
    )

    assert [(each.locality, each.address) for each in found] == [
        ("a", "192.0.2.1"),
        ("b", "192.0.2.1"),
    ]


@pytest.mark.parametrize(("by_name", "wanted"), [(True, ["gw.example.com"]), (False, ["10.2.0.1"])])
def test_a_name_of_a_gateway_is_for_clusters_that_look_names_up(
    *, by_name: bool, wanted: list[str]
) -> None:
    named = Networks(gateways={"n2": (NAMED,)})

    assert [each[0] for each in ways(FAR, networks=named, by_name=by_name)] == wanted


def test_an_endpoint_without_an_address_is_only_behind_its_gateway() -> None:
    assert ways(endpoint("", "n2")) == [("192.0.2.1", 15443, 1)]
    assert ways(endpoint("", "n2"), network="n2") == []


_endpoints = st.lists(
    st.builds(
        endpoint,
        st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        st.sampled_from(["", "n1", "n2", "n3"]),
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=8,
)


@given(_endpoints, st.integers(1, 3), st.integers(1, 4))
def test_shares_stay_what_they_are_however_many_gateways_there_are(
    endpoints: list[Endpoint], second: int, third: int
) -> None:
    networks = Networks(
        gateways={
            "n2": tuple(NetworkGateway("n2", f"192.0.2.{at}", 1) for at in range(second)),
            "n3": tuple(NetworkGateway("n3", f"192.0.3.{at}", 1) for at in range(third)),
        }
    )

    found = ways(*endpoints, networks=networks)

    total = sum(max(1, each.weight) for each in endpoints)
    factor = 1 if all(each.network in ("", "n1") for each in endpoints) else networks.weight_factor
    assert sum(max(1, weight) for _, _, weight in found) == total * factor
