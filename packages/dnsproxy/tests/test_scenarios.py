"""The behaviours of Istio's agent that applications rely on, over real sockets.

tests/README.md says which scenario each test shows.
"""

import socket
from collections import Counter
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from dns_peers import Over, answering, ask, ask_tcp, exchange, reply_to, running, upstream
from mesh_dnsproxy import DnsConfig, NameEntry, Upstream

SEARCH = ("ns1.svc.cluster.local", "svc.cluster.local")


def kubernetes(
    short: str, namespace: str, *addresses: str, alternate_hosts: tuple[str, ...] = ()
) -> NameEntry:
    return NameEntry(addresses, "Kubernetes", short, namespace, alternate_hosts)


ENTRIES = {
    "www.google.com": NameEntry(("1.1.1.1",), "External"),
    "productpage.ns1.svc.cluster.local": kubernetes("productpage", "ns1", "9.9.9.9"),
    "reviews.ns2.svc.cluster.local": kubernetes("reviews", "ns2", "10.10.10.10"),
    "details.ns2.svc.cluster.remote": kubernetes("details", "ns2", "11.11.11.11"),
    "ipv6.localhost": NameEntry(("2001:db8::1",), "External"),
    "dual.localhost": NameEntry(("2.2.2.2", "2001:db8::2"), "External"),
    "*.wildcard": NameEntry(("20.0.0.1",), "External"),
    "*.b.wildcard": NameEntry(("20.0.0.2",), "External"),
    "*.foons.svc.mesh.company.net": NameEntry(("20.0.0.3",), "External"),
    "ipv4.many": NameEntry(tuple(f"30.0.0.{n}" for n in range(1, 12)), "External"),
    "ipv4.two": NameEntry(("31.0.0.1", "31.0.0.2"), "External"),
    "giant.example": NameEntry(tuple(f"32.0.{n // 250}.{n % 250}" for n in range(600)), "External"),
    "dotted.example.": NameEntry(("33.0.0.1",), "External"),
    "dotted.ns1.svc.cluster.local.": kubernetes("dotted", "ns1", "33.0.0.2"),
    "alt.ns1.svc.cluster.local": kubernetes(
        "alt", "ns1", "34.0.0.1", alternate_hosts=("alt.ns1.svc.clusterset.local",)
    ),
}


def mesh(*upstreams: Upstream) -> DnsConfig:
    return answering(*upstreams, namespace="ns1", search=SEARCH)


def records(answer: dns.message.Message) -> list[tuple[str, str, str]]:
    return [
        (rrset.name.to_text(), dns.rdatatype.to_text(rrset.rdtype), data.to_text())
        for rrset in answer.answer
        for data in rrset
    ]


def unknown(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
    reply = reply_to(packet, rcode=3, soa=True)
    return [(0, len(reply).to_bytes(2, "big") + reply if over == "tcp" else reply)]


async def test_a_cached_name_a_search_alias_and_an_unknown_name() -> None:
    async with (
        upstream(unknown) as up,
        running(mesh(up.address), ENTRIES) as (_, address),
    ):
        answer = await ask(address, "www.google.com.")
        assert records(answer) == [("www.google.com.", "A", "1.1.1.1")]
        assert answer.flags & dns.flags.AA
        assert answer.answer[0].ttl == 30
        alias = "www.google.com.ns1.svc.cluster.local."
        assert records(await ask(address, alias)) == [
            (alias, "CNAME", "www.google.com."),
            ("www.google.com.", "A", "1.1.1.1"),
        ]
        assert not up.queries
        assert (await ask(address, "www.bing.com.")).rcode() == dns.rcode.NXDOMAIN
        assert up.names == ["www.bing.com."]


@pytest.mark.parametrize(
    "name",
    [
        "productpage.ns1.svc.cluster.local.",
        "productpage.ns1.svc.",
        "productpage.ns1.",
        "productpage.",
    ],
)
async def test_every_form_of_a_kubernetes_name_resolves(name: str) -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        assert records(await ask(address, name)) == [(name, "A", "9.9.9.9")]
        assert records(await ask_tcp(address, name)) == [(name, "A", "9.9.9.9")]


async def test_the_short_name_of_another_namespace_is_unknown() -> None:
    async with (
        upstream(unknown) as up,
        running(mesh(up.address), ENTRIES) as (_, address),
    ):
        assert (await ask(address, "reviews.")).rcode() == dns.rcode.NXDOMAIN
        assert up.names == ["reviews."]


async def test_a_whole_name_with_the_search_domain_needs_no_upstream() -> None:
    """With `ndots:5` a resolver asks for it first, and waits for an answer before it goes on."""
    whole = "productpage.ns1.svc.cluster.local."
    doubled = f"{whole}ns1.svc.cluster.local."
    async with running(mesh(), ENTRIES) as (_, address):
        assert records(await ask(address, doubled)) == [
            (doubled, "CNAME", whole),
            (whole, "A", "9.9.9.9"),
        ]
        assert (await ask(address, doubled, "AAAA")).rcode() == dns.rcode.NOERROR
        tripled = f"{doubled}ns1.svc.cluster.local."
        assert (await ask(address, tripled)).rcode() == dns.rcode.SERVFAIL


async def test_another_cluster_domain_is_known_by_the_whole_name_only() -> None:
    async with (
        upstream(unknown) as up,
        running(mesh(up.address), ENTRIES) as (_, address),
    ):
        whole = "details.ns2.svc.cluster.remote."
        assert records(await ask(address, whole)) == [(whole, "A", "11.11.11.11")]
        assert (await ask(address, "details.ns2.")).rcode() == dns.rcode.NXDOMAIN


async def test_a_family_that_a_host_lacks_is_answered_with_nothing() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        for name, kind in (("www.google.com.", "AAAA"), ("ipv6.localhost.", "A")):
            answer = await ask(address, name, kind)
            assert answer.rcode() == dns.rcode.NOERROR
            assert not answer.answer
        for kind, expected in (("A", "2.2.2.2"), ("AAAA", "2001:db8::2")):
            assert records(await ask(address, "dual.localhost.", kind)) == [
                ("dual.localhost.", kind, expected)
            ]
        alias = "www.google.com.ns1.svc.cluster.local."
        assert not (await ask(address, alias, "AAAA")).answer


async def test_the_most_specific_wildcard_wins_and_its_alias_is_answered_literally() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        for name, expected in (
            ("foo.wildcard.", "20.0.0.1"),
            ("a.foo.wildcard.", "20.0.0.1"),
            ("a.b.wildcard.", "20.0.0.2"),
            ("x.a.b.wildcard.", "20.0.0.2"),
            ("foo.foons.svc.mesh.company.net.", "20.0.0.3"),
        ):
            assert records(await ask(address, name)) == [(name, "A", expected)]
        alias = "foo.wildcard.ns1.svc.cluster.local."
        assert records(await ask(address, alias)) == [
            (alias, "CNAME", "*.wildcard."),
            ("*.wildcard.", "A", "20.0.0.1"),
        ]


@pytest.mark.parametrize(("name", "count"), [("ipv4.two.", 2), ("ipv4.many.", 11)])
async def test_addresses_come_in_another_order_each_time_and_all_of_them(
    name: str, count: int
) -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        firsts: Counter[str] = Counter()
        for _ in range(2 * count):
            found = [data for _, _, data in records(await ask(address, name))]
            assert len(set(found)) == len(found) == count
            firsts[found[0]] += 1
        assert set(firsts.values()) == {2}
        alias = f"{name}ns1.svc.cluster.local."
        kinds = [kind for _, kind, _ in records(await ask(address, alias))]
        assert kinds == ["CNAME", *["A"] * count]


async def test_a_big_answer_is_cut_over_udp_and_whole_over_tcp() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        query = dns.message.make_query("giant.example.", "A", use_edns=-1)
        wire = await exchange(address, query.to_wire())
        assert len(wire) <= 512
        cut = dns.message.from_wire(wire)
        assert cut.flags & dns.flags.TC
        assert len(cut.answer[0]) == (512 - 12 - 19) // 16
        query = dns.message.make_query("giant.example.", "A", use_edns=0, payload=4096)
        wire = await exchange(address, query.to_wire())
        assert 4096 - 16 <= len(wire) <= 4096
        assert dns.message.from_wire(wire).opt is not None
        whole = await ask_tcp(address, "giant.example.")
        assert not whole.flags & dns.flags.TC
        assert len(whole.answer[0]) == 600
        fits = await ask(address, "ipv4.many.", edns=0)
        assert not fits.flags & dns.flags.TC


async def test_a_query_before_the_first_table_is_an_error_or_forwarded() -> None:
    def known(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        del over
        return [(0, reply_to(packet, "8.8.8.8"))]

    async with upstream(known) as up:
        async with running(mesh(up.address)) as (server, address):
            assert not server.ready
            assert (await ask(address, "www.google.com.")).rcode() == dns.rcode.SERVFAIL
            assert not up.queries
        early = mesh(up.address)._replace(forward_before_table=True)
        async with running(early) as (server, address):
            assert records(await ask(address, "www.google.com.")) == [
                ("www.google.com.", "A", "8.8.8.8")
            ]
            server.set_table(ENTRIES)
            await server.wait_table_in_use()
            assert records(await ask(address, "www.google.com.")) == [
                ("www.google.com.", "A", "1.1.1.1")
            ]


async def test_no_question_is_an_error() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        wire = await exchange(address, b"\x12\x34\x01\x00" + bytes(8))
        assert wire[:2] == b"\x12\x34"
        assert dns.message.from_wire(wire).rcode() == dns.rcode.SERVFAIL


async def test_letters_match_in_any_case_and_are_given_back_as_asked() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        for name in ("WwW.gOOgle.COM.", "ProductPage.NS1."):
            answer = await ask(address, name)
            assert answer.question[0].name.to_text() == name
            assert answer.answer[0].name.to_text() == name


async def test_a_host_with_a_dot_at_its_end_has_no_short_names() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        assert records(await ask(address, "dotted.example."))
        assert records(await ask(address, "dotted.ns1.svc.cluster.local."))
        assert not records(await ask(address, "dotted.ns1."))


async def test_alternate_hosts_are_names_too() -> None:
    async with running(mesh(), ENTRIES) as (_, address):
        name = "alt.ns1.svc.clusterset.local."
        assert records(await ask(address, name)) == [(name, "A", "34.0.0.1")]


async def test_a_type_that_the_table_does_not_have_is_forwarded_for_known_names_too() -> None:
    def text(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        del over
        reply = dns.message.make_response(dns.message.from_wire(packet))
        reply.answer.append(
            dns.rrset.from_text(reply.question[0].name, 60, "IN", "TXT", '"from upstream"')
        )
        return [(0, reply.to_wire())]

    async with (
        upstream(text) as up,
        running(mesh(up.address), ENTRIES) as (_, address),
    ):
        assert records(await ask(address, "www.google.com.", "TXT")) == [
            ("www.google.com.", "TXT", '"from upstream"')
        ]


async def test_that_a_known_name_does_not_exist_is_never_passed_on() -> None:
    async with (
        upstream(unknown) as up,
        running(mesh(up.address), ENTRIES) as (_, address),
    ):
        answer = await ask(address, "www.google.com.", "MX")
        assert answer.rcode() == dns.rcode.NOERROR
        assert answer.authority
        query = dns.message.make_query("www.google.com.", "MX", want_dnssec=True)
        proof = dns.message.from_wire(await exchange(address, query.to_wire()))
        assert proof.rcode() == dns.rcode.NXDOMAIN
        assert len(up.queries) == 2


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="there is no IPv6")
async def test_ipv4_and_ipv6_are_listened_on() -> None:
    from mesh_dnsproxy import ListenAddress

    listen = (ListenAddress("::1", 0), ListenAddress("localhost", 0))
    config = mesh()._replace(listen=listen)
    async with running(config, ENTRIES) as (server, _):
        assert [host for host, _ in server.addresses] == ["::1", "127.0.0.1", "::1"]
        for host, port in server.addresses:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            assert records(await ask((host, port), "www.google.com.", family=family))
            assert records(await ask_tcp((host, port), "www.google.com."))
