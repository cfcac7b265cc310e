"""Istio's flags and variables, and all that is wrong with them at once."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_traffic_capture import (
    ALL,
    ISTIO_FLAGS,
    Action,
    CaptureConfig,
    DnsCapture,
    HostFacts,
    InvalidCapture,
    Mode,
    build_rules,
    read_arguments,
    read_istio_settings,
)

FACTS = HostFacts(
    has_ipv4=True,
    has_ipv6=True,
    dns_servers=(ip_address("10.0.0.53"),),
    users={"istio-proxy": 1337, "envoy": 999},
    groups={"wheel": 10},
)


def read(line: str = "", **variables: str) -> CaptureConfig:
    return read_istio_settings(read_arguments(line.split()), variables, FACTS).config


def mistakes(flags: dict[str, str], variables: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(InvalidCapture) as raised:
        read_istio_settings(flags, variables or {}, FACTS)
    return raised.value.mistakes


def test_no_flags_are_istios_defaults() -> None:
    assert read() == CaptureConfig()


def test_the_flags_that_injection_passes() -> None:
    line = "-p 15001 -z 15006 -u 1337 -m TPROXY -i * -b *"
    arguments = [*line.split(" "), "-x", ""]
    arguments += ["-d", "15090,15021,15020,", "-q=1,2", "-o3", "-k", "net1", "-c", "eth1,eth2"]
    flags = read_arguments(arguments)
    assert read_istio_settings(flags, {}, FACTS).config == CaptureConfig(
        mode=Mode.TPROXY,
        inbound_ports=ALL,
        excluded_inbound_ports=frozenset({15090, 15021, 15020}),
        outbound_ranges=ALL,
        outbound_ports=frozenset({1, 2}),
        excluded_outbound_ports=frozenset({3}),
        virtual_interfaces=("net1",),
        excluded_interfaces=("eth1", "eth2"),
    )


def test_a_flag_is_stronger_than_a_variable() -> None:
    assert read(ENVOY_PORT="1").outbound_port == 1
    assert read("--envoy-port 2", ENVOY_PORT="1").outbound_port == 2
    assert read("--envoy-port=2").outbound_port == 2


def test_both_releases_short_forms_are_read() -> None:
    settings = read_istio_settings(read_arguments(["-nf=false", "-c", "eth1"]), {}, FACTS)
    assert settings.dry_run
    assert settings.config.excluded_interfaces == ("eth1",)
    assert any("restore-format" in note for note in settings.notes)


def test_names_become_numbers() -> None:
    assert read("-u envoy -g wheel,7").proxy_uids == {999}
    assert read("-u envoy -g wheel,7").proxy_gids == {10, 7}
    assert read("-u 5").proxy_gids == {5}
    assert read(ENVOY_USER="envoy").proxy_uids == {999}
    assert read(ENVOY_USER="unknown").proxy_uids == {1337}
    assert read(ISTIO_OUTBOUND_OWNER_GROUPS="wheel").groups == frozenset({10})
    assert read(ISTIO_OUTBOUND_OWNER_GROUPS="").groups == frozenset()


def test_ipv6_is_on_where_it_comes_first_or_is_asked_for() -> None:
    assert not read().ipv6
    assert read("--dual-stack").ipv6
    assert read(ISTIO_DUAL_STACK="true").ipv6
    only = HostFacts(has_ipv4=False, has_ipv6=True)
    assert read_istio_settings({}, {}, only).config.ipv6
    none = HostFacts(has_ipv4=False, has_ipv6=False)
    with pytest.raises(InvalidCapture, match="no interface has an address"):
        read_istio_settings({}, {}, none)


def test_dns_servers_are_resolv_confs_unless_all_are_asked_for() -> None:
    assert read("--redirect-dns").dns == DnsCapture(servers=(ip_address("10.0.0.53"),))
    assert read("--redirect-dns --capture-all-dns").dns == DnsCapture(servers=ALL)
    assert read(ISTIO_META_DNS_CAPTURE="true").dns is not None
    settings = read_istio_settings({"redirect-dns": "true"}, {}, HostFacts())
    assert settings.config.dns is None
    assert any("resolv.conf names no server" in note for note in settings.notes)


def test_actions_and_backends() -> None:
    for line, action in (
        ("", Action.APPLY),
        ("--cleanup-only", Action.CLEAN),
        ("--skip-rule-apply --run-validation", Action.NOTHING),
    ):
        assert read_istio_settings(read_arguments(line.split()), {}, FACTS).action is action
    for line, backend in (
        ("", ""),
        ("--native-nftables", "nft"),
        ("--force-iptables-binary legacy", "iptables-legacy"),
        ("--force-iptables-binary=nft", "iptables-nft"),
    ):
        assert read_istio_settings(read_arguments(line.split()), {}, FACTS).backend == backend


def test_ranges_are_networks() -> None:
    config = read("-i 10.1.2.3/8,2001:db8::1/32 -x 10.9.0.0/16")
    assert config.outbound_ranges == (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def test_all_mistakes_are_said_at_once() -> None:
    flags = {
        "envoy-port": "0",
        "proxy-uid": "mallory",
        "istio-inbound-interception-mode": "tproxy",
        "istio-inbound-ports": "80,*,x",
        "istio-service-cidr": "10.0.0.1",
        "dry-run": "maybe",
        "probe-timeout": "never",
        "force-iptables-binary": "ebtables",
    }
    found = mistakes(flags)
    assert len(found) == 9
    for name in flags:
        assert any(name in mistake for mistake in found)


def test_what_is_no_flag_is_said() -> None:
    with pytest.raises(InvalidCapture) as raised:
        read_arguments(["--nope", "-y", "word", "-p"])
    assert len(raised.value.mistakes) == 4


_HOSTILE = (
    "80\n-A OUTPUT -j ACCEPT", "80 ", " 80; drop", "0x50", "1e3", "٣", "-1", "65536", "*,80",
    '"', "'", "`id`", "$(id)", "{", "}", "#", "\\", "\0", "lo\neth0", "eth0 ", "eth 0", "e" * 16,
    "../x", "eth0/1", "!eth0", "*", "10.0.0.0/33", "::/129", "10.0.0.0/8\n", "10.0.0.0/255.0.0.0",
    "fe80::1%eth0/64", "::ffff:1.2.3.4", "4294967295", "99999999999999999999", "+", "true\n",
    "5s;", "TPROXY\n", "é", "-j DROP",
)  # fmt: skip


@pytest.mark.parametrize("value", _HOSTILE)
def test_a_hostile_value_is_refused_or_becomes_a_value_of_its_type(value: str) -> None:
    for flag in ISTIO_FLAGS:
        try:
            settings = read_istio_settings({flag.name: value}, {}, FACTS)
        except InvalidCapture:
            continue
        else:
            for chain in build_rules(settings.config).chains:
                for rule in chain.rules:
                    for name in (rule.match.in_interface, rule.match.out_interface):
                        assert not set(name) & set(" \n\t\"'/*;{}#\\$`")


@given(
    st.dictionaries(st.sampled_from([flag.name for flag in ISTIO_FLAGS]), st.text(max_size=30)),
    st.dictionaries(
        st.sampled_from(
            ["ISTIO_OUTBOUND_OWNER_GROUPS", "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "ENVOY_USER"]
        ),
        st.text(max_size=20),
    ),
)
def test_any_text_is_read_or_refused(flags: dict[str, str], variables: dict[str, str]) -> None:
    try:
        settings = read_istio_settings(flags, variables, FACTS)
    except InvalidCapture:
        pass
    else:
        build_rules(settings.config)
