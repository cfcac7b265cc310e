"""Connections through rules of a kernel, and the rule that is named when one does not arrive."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import ip_address

import pytest

from mesh_traffic_capture import (
    ALL,
    TABLE_NAME,
    Backend,
    CaptureConfig,
    DnsCapture,
    Family,
    ValidationResult,
    Way,
    apply_capture,
    validate_capture,
)
from probing import in_namespace, run, wait_for_links, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CONFIG = CaptureConfig(
    ipv6=True, inbound_ports=ALL, outbound_ranges=ALL, dns=DnsCapture(servers=ALL)
)
WAYS = [(way, family) for family in Family for way in (Way.INBOUND, Way.OUTBOUND, Way.DNS)]
each_backend = pytest.mark.parametrize("backend", Backend)


def in_network(function: Callable[[], None], *, routes: bool = True) -> None:
    def prepared() -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", *["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"])
        run("ip", "link", "set", "eth0", "up")
        run("ip", "link", "set", "peer0", "up")
        if routes:
            run("ip", *["address", "add", "10.0.0.1/24", "dev", "eth0"])
            run("ip", *["address", "add", "2001:db8:1::1/64", "dev", "eth0", "nodad"])
            run("ip", *["route", "add", "default", "via", "10.0.0.2"])
            run("ip", *["-6", "route", "add", "default", "via", "2001:db8:1::2"])
        wait_for_links()
        function()

    in_namespace(prepared)


def results(config: CaptureConfig = CONFIG) -> dict[tuple[Way, Family], ValidationResult]:
    return {(each.way, each.family): each for each in validate_capture(config, timeout_s=0.3)}


@each_backend
def test_each_way_arrives_by_both_address_families(backend: Backend) -> None:
    def scene() -> None:
        apply_capture(CONFIG, backend=backend)
        found = results()
        assert list(found) == WAYS
        assert [each.text for each in found.values() if not each.arrived] == []

    in_network(scene)


def test_without_rules_nothing_arrives_and_the_rule_is_named() -> None:
    def scene() -> None:
        found = results()
        assert not any(each.arrived for each in found.values())
        assert "so the rule self-call-by-proxy of nat-proxy is missing" in (
            found[Way.INBOUND, Family.IPV4].text
        )

    in_network(scene)


@pytest.mark.parametrize(
    ("chain", "way", "name"),
    [
        ("nat-proxy", Way.INBOUND, "self-call-by-proxy"),
        ("nat-prerouting", Way.INBOUND, "tunnel"),
        ("nat-output", Way.OUTBOUND, "outbound"),
        ("nat-output", Way.DNS, "dns"),
    ],
)
def test_the_rule_that_is_missing_is_named(chain: str, way: Way, name: str) -> None:
    def scene() -> None:
        apply_capture(CONFIG, backend=Backend.NFT)
        run("nft", "flush", "chain", "inet", TABLE_NAME, chain)
        found = results()[way, Family.IPV4]
        assert found.arrived is False
        assert f"the rule {name} of {chain} is missing" in found.text

    in_network(scene)


def test_rules_of_others_that_decide_first_are_suspected() -> None:
    def scene() -> None:
        apply_capture(CONFIG, backend=Backend.NFT)
        run("nft", "add", "table", "inet", "first")
        hook = "{ type nat hook output priority -150; }"
        run("nft", f"add chain inet first first {hook}")
        run("nft", "add rule inet first first tcp dport 15002 redirect to :9")
        found = results()[Way.OUTBOUND, Family.IPV4]
        assert found.arrived is False
        assert "another decides before it" in found.text

    in_network(scene)


def test_without_a_route_it_is_said_that_the_kernel_asks_no_rule() -> None:
    def scene() -> None:
        apply_capture(CONFIG, backend=Backend.NFT)
        found = results()[Way.OUTBOUND, Family.IPV4]
        assert found.arrived is None
        assert "add a default route" in found.text

    in_network(scene, routes=False)


def test_a_proxy_that_listens_already_is_found() -> None:
    def scene() -> None:
        apply_capture(CONFIG, backend=Backend.NFT)
        with ExitStack() as stack:
            for port in (CONFIG.inbound_port, CONFIG.outbound_port):
                proxy = stack.enter_context(socket.socket())
                proxy.bind(("0.0.0.0", port))  # noqa: S104 - as a proxy does
                proxy.listen()
            found = results()
        assert found[Way.INBOUND, Family.IPV4].arrived
        assert found[Way.OUTBOUND, Family.IPV4].arrived

    in_network(scene)


def test_what_is_not_redirected_is_not_tried() -> None:
    def scene() -> None:
        config = replace(CONFIG, outbound_ranges=(), dns=None, ipv6=False)
        apply_capture(config, backend=Backend.NFT)
        found = results(config)
        assert list(found) == [(Way.INBOUND, Family.IPV4), (Way.OUTBOUND, Family.IPV4)]
        assert found[Way.OUTBOUND, Family.IPV4].arrived is None
        named = replace(config, outbound_ports=frozenset({8080}), groups=frozenset({5}))
        apply_capture(named)
        assert results(named)[Way.OUTBOUND, Family.IPV4].arrived

    in_network(scene)


def test_dns_of_a_named_server_is_tried() -> None:
    def scene() -> None:
        config = replace(CONFIG, dns=DnsCapture(servers=(ip_address("10.0.0.53"),)))
        apply_capture(config, backend=Backend.NFT)
        found = results(config)
        assert found[Way.DNS, Family.IPV4].arrived
        assert found[Way.DNS, Family.IPV6].arrived is None

    in_network(scene)
