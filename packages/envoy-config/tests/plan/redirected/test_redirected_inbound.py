"""What redirected proxies accept, by the services and policies of their workload."""

from collections.abc import Callable

import pytest

from capturing_services import peer_authentication, service
from envoy_config.generate.listeners._redirected_inbound import virtual_inbound
from envoy_config.plan.redirected._chain_kinds import Traffic, chain_kinds
from envoy_config.plan.redirected._inbound import RedirectedInbound, plan_redirected_inbound
from istio_config.kinds.peer_authentication import MutualTlsMode
from mesh_model import MeshModel
from proxies import proxy

Build = Callable[..., MeshModel]
STRICT, PERMISSIVE = MutualTlsMode.STRICT, MutualTlsMode.PERMISSIVE
DISABLE = MutualTlsMode.DISABLE
ADDRESS = "10.77.0.1"


def inbound(model: MeshModel, **metadata: str) -> RedirectedInbound:
    sidecar = proxy(ADDRESS, NAMESPACE="b", **{"INTERCEPTION_MODE": "REDIRECT", **metadata})
    return plan_redirected_inbound(sidecar, model)


@pytest.mark.parametrize("mode", [STRICT, PERMISSIVE, DISABLE])
@pytest.mark.parametrize("traffic", list(Traffic))
def test_each_first_byte_leads_to_at_most_one_chain(traffic: Traffic, mode: MutualTlsMode) -> None:
    matched = [
        (each.transport, name) for each in chain_kinds(traffic, mode) for name in each.alpn or ("",)
    ]

    assert len(matched) == len(set(matched))
    takes_plaintext = any(each.transport == "raw_buffer" for each in chain_kinds(traffic, mode))
    assert takes_plaintext is (mode is not STRICT)
    ends_tls = any(each.ends_tls for each in chain_kinds(traffic, mode))
    assert ends_tls is (mode is not DISABLE)


def test_of_two_services_with_one_port_of_the_workload_the_older_decides(model_of: Build) -> None:
    model = model_of(
        service("a", ADDRESS, port=80, target=8080, port_name="tcp"),
        service("b", ADDRESS, port=81, target=8080, port_name="http", vip="10.9.0.2"),
        service("c", ADDRESS, port=82, target=7070, port_name="grpc", vip="10.9.0.3"),
    )

    ports = inbound(model).ports

    assert [(each.number, each.service_port, each.protocol.value) for each in ports] == [
        (7070, 82, "GRPC"),
        (8080, 80, "TCP"),
    ]


def test_ports_that_no_service_has_follow_the_workload_or_their_own_mode(model_of: Build) -> None:
    model = model_of(
        service("s", ADDRESS),
        peer_authentication("STRICT"),
        peer_authentication(
            "PERMISSIVE", ports="8080: {mode: DISABLE}, 9999: {mode: STRICT}", app="s"
        ),
    )

    found = inbound(model)

    assert [(each.number, each.mode) for each in found.ports] == [(8080, DISABLE)]
    assert [(each.number, each.mode) for each in found.others] == [
        (None, PERMISSIVE),
        (9999, STRICT),
    ]


def test_workloads_that_accept_the_same_share_one_plan(model_of: Build) -> None:
    model = model_of(service("s", ADDRESS, "10.77.0.2"))

    one, two = (
        plan_redirected_inbound(proxy(each, NAMESPACE="b", INTERCEPTION_MODE="REDIRECT"), model)
        for each in (ADDRESS, "10.77.0.2")
    )

    assert one == two


@pytest.mark.parametrize(
    ("mode", "ports", "wanted"),
    [
        ("PERMISSIVE", "", {"tls_inspector": "", "http_inspector": "8080"}),
        ("STRICT", "", {"tls_inspector": ""}),
        ("DISABLE", "", {"http_inspector": "8080"}),
        (
            "DISABLE",
            "8080: {mode: STRICT}",
            {"tls_inspector": "not 8080", "http_inspector": "8080"},
        ),
        ("STRICT", "8080: {mode: DISABLE}", {"tls_inspector": "8080"}),
        (
            "PERMISSIVE",
            "8080: {mode: DISABLE}, 9: {mode: STRICT}",
            {"tls_inspector": "8080", "http_inspector": "9 8080"},
        ),
    ],
)
def test_first_bytes_are_waited_for_on_ports_that_need_them_only(
    model_of: Build, mode: str, ports: str, wanted: dict[str, str]
) -> None:
    model = model_of(service("s", ADDRESS), peer_authentication(mode, ports=ports, app="s"))

    listener = virtual_inbound(inbound(model), model)

    found = {}
    for each in listener.listener_filters:
        off = each.filter_disabled
        inverted = off.HasField("not_match")
        rule = off.not_match if inverted else off
        rules = rule.or_match.rules if rule.HasField("or_match") else [rule]
        numbers = [
            str(one.destination_port_range.start)
            for one in rules
            if one.HasField("destination_port_range")
        ]
        found[each.name.rpartition(".")[2]] = "not " * inverted + " ".join(numbers)
    assert found.pop("original_dst") == ""
    assert found == wanted


def test_only_tproxy_keeps_the_clients_address_and_is_transparent(model_of: Build) -> None:
    model = model_of(service("s", ADDRESS))

    plain = virtual_inbound(inbound(model), model)
    kept = virtual_inbound(inbound(model, INTERCEPTION_MODE="TPROXY"), model)

    assert not plain.HasField("transparent")
    assert kept.transparent.value
    sources = [each.name for each in kept.listener_filters if "original_src" in each.name]
    assert sources
    assert not any("original_src" in each.name for each in plain.listener_filters)
