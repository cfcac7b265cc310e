"""Tables of names: the addresses that agents answer the names of the mesh with."""

from collections.abc import Callable
from typing import Any

import pytest

from envoy_config import Proxy, PushContext
from mesh_model import MeshModel
from mesh_protos.nds_pb2 import NameTable
from named_services import DOCUMENTS, STATIC, TCP, WEB, entry
from proxies import proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]


def proxy(*, kind: str = "sidecar", address: str = "10.1.1.1", **metadata: Any) -> Proxy:
    return proxy_of(
        Node(id=f"{kind}~{address}~client.default~default.svc.cluster.local", metadata=metadata)
    )


def table(context: PushContext, of: Proxy) -> dict[str, tuple[str, ...]]:
    return {host: tuple(info.ips) for host, info in message(context, of).table.items()}


def message(context: PushContext, of: Proxy) -> NameTable:
    (resource,) = context.names(of).resources
    return NameTable.FromString(resource.body)


def test_an_agent_that_captures_dns_is_sent_what_istio_sends(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))

    found = table(context, proxy(DNS_CAPTURE="true"))

    web, other = found.pop(WEB), found.pop("web.other.svc.cluster.local")
    assert found == {
        "fixed.test": ("10.9.9.9",),
        "mixed.test": ("10.9.9.8",),
        "headless.default.svc.cluster.local": ("10.0.0.1", "10.0.0.2"),
    }
    assert web != other
    assert all(len(each) == 1 and each[0].startswith("240.240.") for each in (web, other))


def test_hosts_of_the_mesh_have_short_names_and_all_others_have_none(model_of: Build) -> None:
    found = message(PushContext(model_of(*DOCUMENTS)), proxy(DNS_CAPTURE="true")).table

    web, fixed = found[WEB], found["fixed.test"]
    assert (web.registry, web.shortname, web.namespace) == ("Kubernetes", "web", "default")
    assert (fixed.registry, fixed.shortname, fixed.namespace) == ("External", "", "")


@pytest.mark.parametrize(
    ("address", "more", "begins"),
    [
        ("10.1.1.1", "", ["240.240."]),
        ("fd00::1", "", ["2001:2::"]),
        ("10.1.1.1", "10.1.1.1,fd00::1", ["240.240.", "2001:2::"]),
    ],
)
def test_allocated_addresses_are_of_the_ip_versions_that_a_workload_has(
    model_of: Build, address: str, more: str, begins: list[str]
) -> None:
    context = PushContext(model_of(*DOCUMENTS))
    of = proxy(address=address, DNS_CAPTURE="true", **({"INSTANCE_IPS": more} if more else {}))

    found = table(context, of)[WEB]

    assert [ip[: len(start)] for ip, start in zip(found, begins, strict=True)] == begins


@pytest.mark.parametrize("metadata", [{}, {"DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "false"}])
def test_without_auto_allocation_a_mesh_host_is_its_endpoints(
    model_of: Build, metadata: dict[str, str]
) -> None:
    assert table(PushContext(model_of(*DOCUMENTS)), proxy(**metadata))[WEB] == (
        "10.0.0.1",
        "10.0.0.2",
    )


def test_a_proxy_that_says_where_it_listens_has_each_name_at_its_own_listener(
    model_of: Build,
) -> None:
    rival = entry("rival", f"hosts: [rival.test], {TCP}, {STATIC}")
    late = entry("zzz", f"hosts: [late.test], {TCP}, {STATIC}")
    context = PushContext(model_of(*DOCUMENTS, rival, late))
    of = proxy(DNS_CAPTURE="true", OUTBOUND_BIND_ADDRESS="127.9.1.3")

    assert table(context, of) == {
        WEB: ("127.9.1.3",),
        "web.other.svc.cluster.local": ("127.9.1.3",),
        "headless.default.svc.cluster.local": ("127.9.1.3",),
        "*.wild.test": ("127.9.1.3",),
        "fixed.test": ("10.9.9.9",),
        "mixed.test": ("10.9.9.8",),
        "rival.test": ("127.9.1.3",),  # whose port late.test would have to have, so it has no name
    }


def test_every_address_of_a_name_is_listened_on(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))
    for of in (
        proxy(DNS_CAPTURE="true"),
        proxy(DNS_CAPTURE="true", OUTBOUND_BIND_ADDRESS="127.9.1.3"),
    ):
        places = {(each.bind, each.port) for each in context.outbound(of).listeners}
        ports = {WEB: [80], "fixed.test": [9000], "mixed.test": [80, 9001]}
        for host, numbers in ports.items():
            for ip in table(context, of)[host]:
                assert places >= {(ip, number) for number in numbers}, host


def test_gateways_are_sent_names_only_if_their_agent_answers_dns(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))

    assert not context.names(proxy(kind="router")).resources
    assert WEB in table(context, proxy(kind="router", ENABLE_DNS_SERVER="true"))


def test_proxies_of_one_namespace_share_the_very_same_table(model_of: Build) -> None:
    context = PushContext(model_of(*DOCUMENTS))
    one, two = (proxy(address=each, DNS_CAPTURE="true") for each in ("10.1.1.1", "10.1.1.2"))

    assert context.names(one) is context.names(two)


def test_a_table_is_generated_again_only_when_what_shapes_it_changes(model_of: Build) -> None:
    before = PushContext(model_of(*DOCUMENTS))
    moved = [each.replace("10.0.0.2", "10.0.0.3") for each in DOCUMENTS[:2]] + [*DOCUMENTS[2:]]
    redirected, plain = proxy(DNS_CAPTURE="true"), proxy()
    old = before.names(redirected), before.names(plain)

    after = PushContext(model_of(*moved), before=before)

    assert after.names(redirected) is old[0]
    assert after.names(plain) is not old[1]
    assert table(after, plain)[WEB] == ("10.0.0.1", "10.0.0.3")
