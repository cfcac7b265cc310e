"""Addresses are judged by where a packet for them comes, whatever they look like."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_address_guard import (
    METADATA,
    THIS_MACHINE,
    AddressBlocked,
    AddressGuard,
    NotANetwork,
    parse_networks,
)

SERVICES = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::a9fe:a9fe",
    "fe80::a9fe:a9fe%eth0",
]


@pytest.mark.parametrize("address", SERVICES)
def test_a_metadata_service_is_blocked_and_cannot_be_allowed(address: str) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert AddressGuard().blocks(address) is not None
    assert AddressGuard(allowed=everything).blocks(address) is not None


def _of_ipv4(inner: IPv4Address) -> list[IPv6Address]:
    """Return the IPv6 addresses that lead to an IPv4 address."""
    number, octets = int(inner), inner.packed
    packed = {
        48: bytes.fromhex("0064ff9b0001") + octets[:2] + b"\0" + octets[2:] + bytes(5),
        56: bytes.fromhex("0064ff9b000107") + octets[:1] + b"\0" + octets[1:] + bytes(4),
        64: bytes.fromhex("0064ff9b00010707") + b"\0" + octets + bytes(3),
        96: bytes.fromhex("0064ff9b0001070700000000") + octets,
    }
    return [
        IPv6Address(f"::ffff:{inner}"),
        IPv6Address(f"64:ff9b::{inner}"),
        IPv6Address(f"::ffff:0:{inner}"),
        IPv6Address((0x2002 << 112) | (number << 80) | 1),
        IPv6Address((0x20010000 << 96) | (0x7F000001 << 64) | (number ^ 0xFFFFFFFF)),
        *map(IPv6Address, packed.values()),
    ]


@given(st.ip_addresses(v=4))
def test_an_address_that_leads_to_another_is_judged_as_both(inner: IPv4Address) -> None:
    guard = AddressGuard(blocked=[ip_network("10.0.0.0/8"), ip_network("128.0.0.0/1")])
    for address in _of_ipv4(inner):
        if guard.blocks(str(inner)) is not None:
            assert guard.blocks(str(address)) is not None, address


@given(st.ip_addresses())
def test_what_python_calls_link_local_is_blocked(address: IPv4Address | IPv6Address) -> None:
    if address.is_link_local:
        assert AddressGuard().blocks(str(address)) is not None


@given(st.ip_addresses())
def test_what_is_allowed_is_not_blocked_but_for_metadata(
    address: IPv4Address | IPv6Address,
) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    allowing = AddressGuard(blocked=everything, allowed=everything)
    assert allowing.blocks(str(address)) == AddressGuard().blocks(str(address))
    assert AddressGuard(blocked=everything).blocks(str(address)) is not None


_zones = st.text().map("%{}".format) | st.just("")
_texts = st.text() | st.builds("{}{}".format, st.ip_addresses(), _zones)


@given(_texts)
def test_any_text_is_an_address_that_is_judged_or_blocked(text: str) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    blocking = AddressGuard(blocked=everything)
    assert blocking.blocks(text) is not None
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        assert AddressGuard().blocks(text) == blocking.blocks(text) == "unknown addresses"
    else:
        assert AddressGuard().blocks(text) == AddressGuard().blocks(str(address))


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "a b"])
def test_what_is_no_address_is_blocked(text: str) -> None:
    assert AddressGuard().blocks(text) == "unknown addresses"


HERE = ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0", "::1", "::", "0x0"]


@pytest.mark.parametrize("host", HERE)
def test_what_the_resolver_makes_of_a_notation_is_judged(host: str) -> None:
    found = [str(place[0]) for *_, place in socket.getaddrinfo(host, None)]
    with pytest.raises(AddressBlocked, match="is at a blocked address"):
        AddressGuard(blocked=THIS_MACHINE).admitted(host, found)
    assert AddressGuard().admitted(host, found) == tuple(found)


def test_of_several_addresses_the_good_ones_are_admitted() -> None:
    guard = AddressGuard()
    assert guard.admitted("a.example", ["169.254.1.1", "10.0.0.1"]) == ("10.0.0.1",)
    with pytest.raises(AddressBlocked, match=r"b\.example is at a blocked address: it has none"):
        guard.admitted("b.example", [])


def test_networks_are_read_with_commas_between_them() -> None:
    found = parse_networks(" 10.1.2.3/8, ::1 ,,127.0.0.1")
    assert [str(each) for each in found] == ["10.0.0.0/8", "::1/128", "127.0.0.1/32"]
    assert parse_networks("") == ()
    with pytest.raises(NotANetwork, match=r"'10\.0\.0\.0/99' is no network such as"):
        parse_networks("::1,10.0.0.0/99")


def test_each_network_that_is_always_blocked_blocks() -> None:
    guard = AddressGuard()
    for network in METADATA:
        assert guard.blocks(str(network[0])) == guard.blocks(str(network[-1])) == str(network)
