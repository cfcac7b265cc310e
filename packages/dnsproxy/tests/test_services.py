"""SRV, HTTPS and PTR, where the table tells ports and addresses."""

import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from mesh_dnsproxy import NameEntry, Port
from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.table._compiled import Scope, compile_table

ENTRIES = {
    "web.ns.svc.cluster.local": NameEntry(
        ("10.0.0.1", "2001:db8::1"),
        "Kubernetes",
        "web",
        "ns",
        ports=(Port(80, "http", "HTTP"), Port(443, "https", "HTTPS"), Port(53, "dns", "UDP")),
    ),
    "secure.example": NameEntry(("10.0.0.2",), ports=(Port(8443, "api", "HTTPS"),)),
    "plain.example": NameEntry(("10.0.0.3",), ports=(Port(80, "http", "HTTP"),)),
    "unknown.example": NameEntry(("10.0.0.4",)),
    "other.example": NameEntry(("10.0.0.4",)),
    "*.wild.example": NameEntry(("10.0.0.5",), ports=(Port(80, "http", "HTTP"),)),
}


def answer(name: str, kind: str) -> dns.message.Message | None:
    answerer = Answerer(Counts())
    scope = Scope.from_texts(
        domain="svc.cluster.local", namespace="ns", search="ns.svc.cluster.local"
    )
    building = compile_table(ENTRIES.items(), scope)
    try:
        while True:
            next(building)
    except StopIteration as done:
        answerer.use_table(done.value)
    packet = dns.message.make_query(name, kind, use_edns=0).to_wire()
    found = answerer.answer(packet, over_tcp=False)
    if isinstance(found, Forward):
        return None
    assert isinstance(found, bytes)
    return dns.message.from_wire(found)


def shown(message: dns.message.Message | None) -> list[str]:
    assert message is not None
    assert message.rcode() == dns.rcode.NOERROR
    return [
        f"{rrset.name} {rrset.rdtype.name} {data}" for rrset in message.answer for data in rrset
    ]


@pytest.mark.parametrize("host", ["web.ns.svc.cluster.local.", "web.ns.", "web."])
def test_srv_tells_the_port_of_that_name_and_the_addresses(host: str) -> None:
    found = answer(f"_http._tcp.{host}", "SRV")
    assert shown(found) == [f"_http._tcp.{host} SRV 0 100 80 web.ns.svc.cluster.local."]
    assert found is not None
    assert {str(data) for rrset in found.additional for data in rrset} == {
        "10.0.0.1",
        "2001:db8::1",
    }


def test_srv_of_a_wildcard_names_who_was_asked_for() -> None:
    found = answer("_http._tcp.a.wild.example.", "SRV")
    assert shown(found) == ["_http._tcp.a.wild.example. SRV 0 100 80 a.wild.example."]


@pytest.mark.parametrize(
    "name",
    [
        "_grpc._tcp.web.ns.",
        "_dns._tcp.web.ns.",
        "_http._tcp.unknown.example.",
        "_http._tcp.none.example.",
        "web.ns.",
    ],
)
def test_srv_that_the_table_does_not_tell_is_asked_elsewhere(name: str) -> None:
    assert answer(name, "SRV") is None
    assert shown(answer("_dns._udp.web.ns.", "SRV"))


def test_https_is_answered_where_a_port_has_tls() -> None:
    assert shown(answer("web.ns.", "HTTPS")) == [
        'web.ns. HTTPS 1 . ipv4hint="10.0.0.1" ipv6hint="2001:db8::1"'
    ]
    assert shown(answer("_8443._https.secure.example.", "HTTPS")) == [
        '_8443._https.secure.example. HTTPS 1 secure.example. port="8443" ipv4hint="10.0.0.2"'
    ]


def test_https_is_answered_as_none_where_ports_are_known_and_asked_elsewhere_if_not() -> None:
    assert shown(answer("plain.example.", "HTTPS")) == []
    assert shown(answer("secure.example.", "HTTPS")) == []
    assert answer("unknown.example.", "HTTPS") is None
    alias = "plain.example.ns.svc.cluster.local."
    assert shown(answer(alias, "HTTPS")) == [f"{alias} CNAME plain.example."]


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("1.0.0.10.in-addr.arpa.", ["web.ns.svc.cluster.local."]),
        ("4.0.0.10.in-addr.arpa.", ["unknown.example.", "other.example."]),
        (
            "1." + "0." * 23 + "8.b.d.0.1.0.0.2.ip6.arpa.",
            ["web.ns.svc.cluster.local."],
        ),
    ],
)
def test_ptr_tells_the_hosts_of_an_address(address: str, names: list[str]) -> None:
    assert shown(answer(address, "PTR")) == [f"{address} PTR {name}" for name in names]


@pytest.mark.parametrize(
    "name",
    [
        "9.0.0.10.in-addr.arpa.",
        "5.0.0.10.in-addr.arpa.",
        "0.0.10.in-addr.arpa.",
        "x.0.0.10.in-addr.arpa.",
        "01.0.0.10.in-addr.arpa.",
        "0.0.0.ip6.arpa.",
        "in-addr.arpa.",
        "web.ns.",
    ],
)
def test_ptr_of_anything_else_is_asked_elsewhere(name: str) -> None:
    assert answer(name, "PTR") is None
