"""What a Sidecar brings in: found by indices, and the same as by looking at everything."""

import pytest

from istio_config.kinds.sidecar import (
    EgressListener,
    SidecarPort,
    SidecarSpec,
    SidecarTrafficMode,
    SidecarTrafficPolicy,
)
from istio_config.kinds.virtual_service import Destination
from mesh_model._services import Registry
from mesh_model.sidecars._imports import Imports, egress_listeners, known_services
from mesh_model.sidecars._indices import Indices
from mesh_model.virtual_services._virtual_services import VirtualServices
from mesh_settings import VIRTUAL_SERVICES
from sidecar_imports import Counted, imports, route, service


def sidecar(*hosts: str) -> SidecarSpec:
    return SidecarSpec(egress=(EgressListener(hosts=hosts),))


def brought_in(spec: SidecarSpec, given: Imports) -> list[str]:
    (listener,) = egress_listeners(spec, given)
    return [f"{each.namespace}/{each.host}" for each in listener.services]


SERVICES = [
    service("a.shop"),
    service("b.shop"),
    service("a.other", "other"),
    service("hidden.other", "other", export_to=["."]),
    service("*.wild.other", "other"),
    service("both.x", "other"),
    service("both.x", "third"),
    service("k8s.x", "other"),
    service("k8s.x", "third", registry=Registry.KUBERNETES),
    service("own.x", "other", registry=Registry.KUBERNETES),
    service("own.x"),
]

CASES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "own namespace": (("./*",), ["shop/a.shop", "shop/b.shop", "shop/own.x"]),
    "one host": (("other/a.other",), ["other/a.other"]),
    "any namespace": (("*/a.other",), ["other/a.other"]),
    "another's private one": (("other/hidden.other",), []),
    "wildcard": (("*/*.other",), ["other/a.other", "other/*.wild.other"]),
    "wildcard service by a longer wildcard": (("*/*.very.wild.other",), []),
    "wildcard service by itself": (("*/*.wild.other",), ["other/*.wild.other"]),
    "a host below a wildcard service": (("*/x.wild.other",), []),
    "capitals": (("*/A.Shop",), ["shop/a.shop"]),
    "the oldest of two namespaces": (("*/both.x",), ["other/both.x"]),
    "the namespace that is named": (("third/both.x",), ["third/both.x"]),
    "one of Kubernetes": (("*/k8s.x",), ["third/k8s.x"]),
    "the own one": (("*/own.x",), ["shop/own.x"]),
    "taken out": (("./*", "~/a.shop", "~/*.x"), ["shop/b.shop"]),
    "taken out of a namespace": (
        ("*/*.x", "~other/*"),
        ["third/both.x", "third/k8s.x", "shop/own.x"],
    ),
    "nothing": (("~/*",), []),
}


@pytest.mark.parametrize(("hosts", "found"), CASES.values(), ids=CASES)
def test_hosts_bring_in_services(hosts: tuple[str, ...], found: list[str]) -> None:
    assert brought_in(sidecar(*hosts), imports(SERVICES)) == found


def test_a_sidecar_without_egress_has_everything_that_is_exported() -> None:
    spec = SidecarSpec(outbound_traffic_policy=SidecarTrafficPolicy())

    found = brought_in(spec, imports(SERVICES))

    assert len(found) == len(set(found)) == 7
    assert "other/hidden.other" not in found


def test_a_listener_with_a_port_has_only_that_port_of_its_services() -> None:
    given = imports([service("a", ports=[80, 81]), service("b", ports=[81])])
    spec = SidecarSpec(
        egress=(
            EgressListener(hosts=("./*",), port=SidecarPort(number=80, protocol="HTTP")),
            EgressListener(hosts=("./b",)),
        )
    )

    first, rest = listeners = egress_listeners(spec, given)

    assert [(each.host, [p.number for p in each.ports]) for each in first.services] == [("a", [80])]
    assert [each.host for each in rest.services] == ["b"]
    known = known_services(listeners, spec, given)
    assert {host: [p.number for p in each.ports] for host, each in known.items()} == {
        "a": [80],
        "b": [81],
    }


def test_ports_of_several_listeners_are_united() -> None:
    whole = service("a", ports=[80, 81])
    given = imports([whole])
    spec = SidecarSpec(
        egress=tuple(
            EgressListener(hosts=("./*",), port=SidecarPort(number=number)) for number in (81, 80)
        )
    )

    assert known_services(egress_listeners(spec, given), spec, given) == {"a": whole}


def test_a_listener_for_an_http_proxy_has_all_ports() -> None:
    given = imports([service("a", ports=[80, 81])])
    port = SidecarPort(number=3128, protocol="HTTP_PROXY")
    spec = SidecarSpec(egress=(EgressListener(hosts=("./*",), port=port),))

    (listener,) = egress_listeners(spec, given)

    assert listener.is_http_proxy
    assert [len(each.ports) for each in listener.services] == [2]


def known(spec: SidecarSpec, given: Imports) -> dict[str, list[int]]:
    found = known_services(egress_listeners(spec, given), spec, given)
    return {
        f"{each.namespace}/{host}": [port.number for port in each.ports]
        for host, each in found.items()
    }


DESTINATION_SERVICES = [
    service("a.shop"),
    service("to.x", "other", ports=[80, 81]),
    service("to.x", "third", ports=[80], registry=Registry.KUBERNETES),
    service("more.x", "other", ports=[80, 81]),
    service("mine.x", "other"),
    service("mine.x", "shop"),
    service("no.x", "other", export_to=["~"]),
]


def test_destinations_of_imported_routes_are_known_by_the_ports_that_are_named() -> None:
    given = imports(
        DESTINATION_SERVICES,
        [route("v", ["a.shop"], [("more.x", 81), ("to.x", None), ("no.x", 80), ("mine.x", 9)])],
    )

    assert known(sidecar("./a.shop"), given) == {
        "shop/a.shop": [80],
        "other/more.x": [81],
        "third/to.x": [80],
    }


def test_destinations_of_routes_that_are_not_imported_are_not_known() -> None:
    routes = [
        route("other host", ["b.shop"], [("more.x", None)]),
        route("other namespace", ["a.shop"], [("more.x", None)], namespace="other"),
        route("hidden", ["a.shop"], [("more.x", None)], export_to=["elsewhere"]),
        route("for others", ["a.shop"], [("more.x", None)], only_from="elsewhere"),
    ]

    assert known(sidecar("./a.shop"), imports(DESTINATION_SERVICES, routes)) == {
        "shop/a.shop": [80]
    }


def test_of_a_destination_the_own_namespaces_service_comes_first() -> None:
    routes = [route("v", ["a.shop"], [("mine.x", 80)])]

    assert "shop/mine.x" in known(sidecar("./a.shop"), imports(DESTINATION_SERVICES, routes))


def test_the_proxy_of_unknown_traffic_is_known_too() -> None:
    spec = SidecarSpec(
        egress=(EgressListener(hosts=("./a.shop",)),),
        outbound_traffic_policy=SidecarTrafficPolicy(
            mode=SidecarTrafficMode.ALLOW_ANY, egress_proxy=Destination(host="more.x")
        ),
    )

    assert "other/more.x" in known(spec, imports(DESTINATION_SERVICES))


@pytest.mark.parametrize(
    ("service_name", "port", "found"),
    [
        ("p.x", 80, {"far/p.x": [80]}),
        ("far/P.x", 80, {"far/p.x": [80]}),
        ("near/p.x", 80, {}),
        ("p.x", 81, {}),
        ("none.x", 80, {}),
        ("hidden.x", 80, {}),
    ],
)
def test_services_of_providers_are_known_though_no_host_brings_them_in(
    service_name: str, port: int, found: dict[str, list[int]]
) -> None:
    services = [
        service("p.x", "far", ports=(80, 82)),
        service("hidden.x", "far", export_to=(".",)),
        service("a.shop"),
    ]
    spec = sidecar("./a.shop")
    brought = known(spec, imports(services, providers=[(service_name, port)]))

    assert {name: ports for name, ports in brought.items() if name != "shop/a.shop"} == found


def test_ten_services_of_ten_thousand_cost_ten() -> None:
    services = [service(f"s{n}.ns{n % 100}", f"ns{n % 100}") for n in range(10_000)]
    routes = [
        route(
            f"v{n}",
            [f"s{n}.ns{n % 100}"],
            [(f"s{n + 1}.ns{(n + 1) % 100}", 80)],
            namespace=f"ns{n % 100}",
        )
        for n in range(100)
    ]
    given = imports(services, routes, namespace="ns7")
    spec = sidecar(*(f"*/s{n}.ns{n % 100}" for n in range(10)))

    found = known(spec, given)

    assert len(found) == 11  # the last route leads to one more
    assert isinstance(given.by_key, Counted)
    assert given.by_key.lookups < 50


def test_an_index_stays_while_services_change_and_none_comes_or_goes() -> None:
    before = Indices(SERVICES, VirtualServices.build([], VIRTUAL_SERVICES))
    index = before.services
    edited = [service("a.shop", ports=[81]), *SERVICES[1:]]

    unused = Indices(edited, VirtualServices.build([], VIRTUAL_SERVICES), before=before)
    after = Indices(edited, VirtualServices.build([], VIRTUAL_SERVICES), before=unused)

    assert after.services is index
    assert (
        Indices(SERVICES[1:], VirtualServices.build([], VIRTUAL_SERVICES), before=after).services
        is not index
    )
