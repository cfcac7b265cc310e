"""The verdicts of the rules, against a model of what a configuration asks for."""

from ipaddress import ip_address

import pytest
from hypothesis import given, settings

from capture_model import wanted
from drawn_captures import configs, packets
from mesh_traffic_capture import (
    ALL,
    CaptureConfig,
    Direction,
    DnsCapture,
    InvalidCapture,
    Mode,
    Packet,
    Protocol,
    build_rules,
    explain,
)
from mesh_traffic_capture.backends import read_rules, table_of
from mesh_traffic_capture.rules import RULE_NAMES

PACKET = Packet(
    direction=Direction.OUTBOUND,
    interface="eth0",
    protocol=Protocol.TCP,
    destination=ip_address("10.0.0.1"),
    destination_port=80,
    uid=1000,
    gid=1000,
)


@settings(max_examples=1500)
@given(config=configs(), packet=packets())
def test_the_rules_give_the_verdict_that_the_configuration_asks_for(
    config: CaptureConfig, packet: Packet
) -> None:
    found = explain(build_rules(config), packet)
    assert (found.outcome, found.port) == wanted(config, packet)
    assert str(found)


@settings(max_examples=500)
@given(config=configs(), packet=packets())
def test_rules_that_are_read_back_from_nft_give_the_same_verdict(
    config: CaptureConfig, packet: Packet
) -> None:
    rules = build_rules(config)
    read = read_rules(table_of(rules))
    found, wanted_one = explain(read, packet), explain(rules, packet)
    assert (str(found), found.zone, found.mark) == (
        str(wanted_one),
        wanted_one.zone,
        wanted_one.mark,
    )


@given(config=configs())
def test_each_rule_has_a_meaning_and_each_chain_is_there(config: CaptureConfig) -> None:
    rules = build_rules(config)
    for chain in rules.chains:
        for rule in chain.rules:
            assert rule.name in RULE_NAMES
            if rule.verdict.chain:
                rules.chain(rule.verdict.chain)


def test_a_configuration_with_mistakes_has_no_rules() -> None:
    config = CaptureConfig(proxy_uids=frozenset(), proxy_gids=frozenset(), outbound_port=0)
    with pytest.raises(InvalidCapture) as raised:
        build_rules(config)
    assert len(raised.value.mistakes) == 2


def test_the_zones_tell_queries_to_the_agent_from_its_own() -> None:
    rules = build_rules(CaptureConfig(dns=DnsCapture(servers=ALL), outbound_ranges=ALL))
    query = Packet(
        direction=Direction.OUTBOUND,
        interface="eth0",
        protocol=Protocol.UDP,
        destination=ip_address("10.0.0.1"),
        destination_port=53,
        uid=1000,
        gid=1000,
    )
    redirected = explain(rules, query)
    assert (redirected.port, redirected.zone) == (15053, 2)
    own = Packet(
        direction=Direction.OUTBOUND,
        interface="eth0",
        protocol=Protocol.UDP,
        destination=ip_address("10.0.0.1"),
        destination_port=53,
        uid=1337,
        gid=1337,
    )
    asked = explain(rules, own)
    assert (asked.port, asked.zone) == (None, 1)


def test_tproxy_works_with_the_proxy_at_any_user() -> None:
    rules = build_rules(CaptureConfig(mode=Mode.TPROXY, inbound_ports=ALL, outbound_ranges=ALL))
    passed_on = Packet(
        direction=Direction.OUTBOUND,
        interface="lo",
        protocol=Protocol.TCP,
        destination=ip_address("10.0.0.1"),
        destination_port=80,
        uid=1337,
        gid=1337,
        mark=1337,
    )
    found = explain(rules, passed_on)
    assert found.port is None
    assert found.decided_by is not None
    assert found.decided_by.rule.name == "passed-on-by-mark"


def test_the_sentence_names_the_rule() -> None:
    rules = build_rules(CaptureConfig(outbound_ranges=ALL, excluded_outbound_ports=frozenset({80})))
    assert str(explain(rules, PACKET)) == (
        "not redirected by the rule excluded-outbound-port of nat-output: the outbound port is "
        "excluded"
    )
