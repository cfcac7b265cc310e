"""The verdicts of kernels and of `explain` are the same, with each way of writing the rules."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drawn_captures import configs
from mesh_traffic_capture import (
    ALL,
    CaptureConfig,
    ConnectionState,
    Direction,
    DnsCapture,
    Explanation,
    Mode,
    Outcome,
    Packet,
    Protocol,
    RuleSet,
    build_rules,
    explain,
    render_iptables,
    render_nft,
)
from mesh_traffic_capture.rules import Family
from probing import (
    LOCAL_TOO,
    Seen,
    draw_packets,
    in_namespace,
    listening_transparently,
    prepare,
    probe,
    run,
    why_not,
)

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PROBES = 500
SERVERS = (ip_address("10.1.2.3"), ip_address("127.0.0.53"), ip_address("2001:db8:1::1"))
BASE = CaptureConfig(ipv6=True, inbound_ports=ALL, outbound_ranges=ALL)
FLAGS = {
    "none": CaptureConfig(),
    "all": BASE,
    "ipv6-off": replace(BASE, ipv6=False),
    "ports": replace(BASE, outbound_port=22, inbound_port=80, tunnel_port=443),
    "uids": replace(BASE, proxy_uids=frozenset({5, 1000}), proxy_gids=frozenset()),
    "gids": replace(BASE, proxy_gids=frozenset({5, 1000}), proxy_uids=frozenset()),
    "tproxy": replace(BASE, mode=Mode.TPROXY),
    "tproxy-ports": replace(BASE, mode=Mode.TPROXY, inbound_ports=frozenset({80, 443})),
    "tproxy-mark": replace(BASE, mode=Mode.TPROXY, tproxy_mark=7, tproxy_table=44),
    "tproxy-no-inbound": replace(BASE, mode=Mode.TPROXY, inbound_ports=frozenset()),
    "inbound-ports": replace(BASE, inbound_ports=frozenset({80, 443, 15008})),
    "excluded-inbound-ports": replace(BASE, excluded_inbound_ports=frozenset({22, 15020})),
    "ranges": replace(
        BASE, outbound_ranges=(ip_network("10.1.0.0/16"), ip_network("2001:db8::/32"))
    ),
    "loopback-range": replace(BASE, outbound_ranges=(ip_network("127.0.0.0/8"),)),
    "excluded-ranges": replace(BASE, excluded_outbound_ranges=(ip_network("10.0.0.0/9"),)),
    "outbound-ports": replace(BASE, outbound_ranges=(), outbound_ports=frozenset({80, 8080})),
    "excluded-outbound-ports": replace(BASE, excluded_outbound_ports=frozenset({80, 53})),
    "excluded-interfaces": replace(BASE, excluded_interfaces=("eth1", "net+")),
    "virtual-interfaces": replace(BASE, virtual_interfaces=("vnet0", "eth1")),
    "groups": replace(BASE, groups=frozenset({5, 2000})),
    "no-groups": replace(BASE, groups=frozenset()),
    "excluded-groups": replace(BASE, excluded_groups=frozenset({5, 2000})),
    "loopback": replace(BASE, loopback=IPv4Network("127.0.0.0/8")),
    "dns": replace(BASE, dns=DnsCapture(servers=SERVERS)),
    "all-dns": replace(BASE, dns=DnsCapture(servers=ALL)),
    "invalid": replace(BASE, drop_invalid=True),
    "many": replace(
        BASE,
        inbound_ports=frozenset(range(60, 100)),
        excluded_outbound_ports=frozenset(range(430, 460)),
    ),
}


def by_nft(rules: RuleSet) -> None:
    run("nft", "-f", "-", stdin=render_nft(rules))


def by_iptables(kind: str) -> Callable[[RuleSet], None]:
    def apply(rules: RuleSet) -> None:
        text = render_iptables(rules, Family.IPV4)
        run(f"iptables-{kind}-restore", "--noflush", stdin=text)
        if rules.ipv6:
            text = render_iptables(rules, Family.IPV6)
            run(f"ip6tables-{kind}-restore", "--noflush", stdin=text)

    return apply


WRITERS = {
    "nft": by_nft,
    "iptables-nft": by_iptables("nft"),
    "iptables-legacy": by_iptables("legacy"),
}


def seen_in_kernel(
    apply: Callable[[RuleSet], None], rules: RuleSet, packets: list[Packet], port: int
) -> list[Seen]:
    def probed() -> list[Seen]:
        prepare()
        apply(rules)
        with listening_transparently(port):
            return probe(packets)

    return in_namespace(probed)


def expected(explanation: Explanation, packet: Packet) -> Seen:
    if explanation.outcome is Outcome.DROPPED:
        return Seen(None, None, explanation.zone)
    port = packet.destination_port
    if explanation.outcome is Outcome.REDIRECTED and explanation.port is not None:
        port = explanation.port
    return Seen(port, explanation.mark, explanation.zone)


def differences(
    config: CaptureConfig,
    apply: Callable[[RuleSet], None],
    *,
    seed: int,
    other: RuleSet | None = None,
) -> list[str]:
    rules = build_rules(config)
    packets = draw_packets(seed, PROBES)
    seen = seen_in_kernel(apply, other or rules, packets, config.inbound_port)
    return [
        f"{packet}\n  kernel:  {found}\n  explain: {wanted} {explain(rules, packet)}"
        for packet, found in zip(packets, seen, strict=True)
        if found != (wanted := expected(explain(rules, packet), packet))
    ]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("flag", FLAGS)
def test_each_flag_alone_has_the_same_verdicts(flag: str, writer: str) -> None:
    assert differences(FLAGS[flag], WRITERS[writer], seed=len(flag))[:3] == []


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(config=configs(), seed=st.integers(0, 1 << 16))
def test_combinations_have_the_same_verdicts(writer: str, config: CaptureConfig, seed: int) -> None:
    assert differences(config, WRITERS[writer], seed=seed)[:3] == []


MUTANTS = (
    "dns",
    "dns-by-agent",
    "excluded-group",
    "excluded-inbound-port",
    "excluded-interface",
    "excluded-outbound-port",
    "excluded-range",
    "inbound",
    "outbound",
    "passed-on",
    "proxy-group",
    "proxy-user",
    "self-call",
    "self-call-by-proxy",
    "to-loopback",
    "tunnel",
    "virtual-machine",
)
EVERYTHING = CaptureConfig(
    ipv6=True,
    proxy_uids=frozenset({5}),
    inbound_ports=ALL,
    excluded_inbound_ports=frozenset({22}),
    outbound_ranges=ALL,
    excluded_outbound_ranges=(ip_network("192.0.2.0/24"),),
    excluded_outbound_ports=frozenset({443}),
    excluded_interfaces=("eth1",),
    virtual_interfaces=("vnet0",),
    excluded_groups=frozenset({2000}),
    dns=DnsCapture(servers=ALL),
)
TO_LOOPBACK = replace(EVERYTHING, outbound_ranges=(ip_network("127.0.0.0/8"),))
"""Where this is not named, another rule decides about self-calls first."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_missing_in_the_kernel_is_noticed(name: str) -> None:
    config = TO_LOOPBACK if name == "to-loopback" else EVERYTHING
    rules = build_rules(config)
    mutant = replace(
        rules,
        chains=tuple(
            replace(chain, rules=tuple(rule for rule in chain.rules if rule.name != name))
            for chain in rules.chains
        ),
    )
    assert mutant != rules
    assert differences(config, by_nft, seed=1, other=mutant) != []


@pytest.mark.parametrize("writer", WRITERS)
def test_without_a_proxy_inbound_connections_of_tproxy_are_dropped(writer: str) -> None:
    packets = [
        packet
        for packet in draw_packets(2, PROBES)
        if packet.direction is Direction.INBOUND
        and packet.protocol is Protocol.TCP
        and packet.state is ConnectionState.NEW
        and packet.destination not in LOCAL_TOO
        and packet.destination_port != 15008
    ]

    def probed() -> list[Seen]:
        prepare()
        WRITERS[writer](build_rules(FLAGS["tproxy"]))
        return probe(packets)

    assert {found.port for found in in_namespace(probed)} == {None}
