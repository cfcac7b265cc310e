"""An explanation is the very answer that a client gets, with the rule that it follows from."""

from contextlib import suppress

import dns.message
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dns_peers import Over, reply_to, upstream
from mesh_dnsproxy import (
    DnsConfig,
    Explanation,
    ListenAddress,
    NameEntry,
    NameTable,
    Origin,
    Port,
    Rule,
    serving,
)
from mesh_dnsproxy.message._shown import shown_reply

TABLE = NameTable(
    {
        "reviews.default.svc.cluster.local": NameEntry(
            addresses=("10.0.0.7", "2001:db8::7"),
            registry="Kubernetes",
            short_name="reviews",
            namespace="default",
            alternate_hosts=("old-reviews.example",),
            ports=(Port(80, "http", "HTTP"), Port(443, "web", "HTTPS")),
        ),
        "*.example.com": NameEntry(addresses=("240.240.0.1",)),
    }
)


async def explained(name: str, kind: str = "A", *, table: NameTable | None = TABLE) -> Explanation:
    config = DnsConfig(
        listen=(ListenAddress("127.0.0.1", 0),),
        namespace="default",
        resolv_conf=None,
        search=("default.svc.cluster.local",),
    )
    async with serving(config) as server:
        if table is not None:
            server.set_table(table)
            await server.wait_table_in_use()
        hits = server.counts.requests
        found = await server.explain(name, kind)
        assert server.counts.requests == hits  # people who look are no clients
        return found


@pytest.mark.parametrize(
    ("name", "kind", "rule", "host", "data"),
    [
        (
            "reviews.default.svc.cluster.local",
            "A",
            Rule.HOST,
            "reviews.default.svc.cluster.local",
            ["10.0.0.7"],
        ),
        ("REVIEWS", "aaaa", Rule.SHORT_NAME, None, ["2001:db8::7"]),
        ("reviews.default.svc", "A", Rule.SHORT_NAME, None, ["10.0.0.7"]),
        ("old-reviews.example.", "A", Rule.SHORT_NAME, None, ["10.0.0.7"]),
        ("a.b.example.com", "A", Rule.WILDCARD, "*.example.com", ["240.240.0.1"]),
        ("a.b.example.com", "AAAA", Rule.WILDCARD, "*.example.com", []),
        (
            "_http._tcp.reviews",
            "SRV",
            Rule.SHORT_NAME,
            None,
            ["0 100 80 reviews.default.svc.cluster.local."],
        ),
        ("7.0.0.10.in-addr.arpa", "PTR", Rule.ADDRESS, None, None),
        ("reviews", "TXT", Rule.OTHER_TYPE, None, []),
        ("gone.example", "A", Rule.NOT_IN_TABLE, None, []),
        ("gone.example", "252", Rule.REFUSED, None, []),
    ],
)
async def test_rules(
    name: str, kind: str, rule: Rule, host: str | None, data: list[str] | None
) -> None:
    found = await explained(name, kind)
    assert found.rule is rule
    if host is not None:
        assert found.host == host
    if data is not None:
        assert [each.data for each in found.answers] == data


async def test_a_search_domain_is_an_alias() -> None:
    found = await explained("x.example.com.default.svc.cluster.local")
    assert (found.rule, found.alias_of) == (Rule.SEARCH_DOMAIN, "*.example.com")
    assert [(each.type, each.data) for each in found.answers] == [
        ("CNAME", "*.example.com."),
        ("A", "240.240.0.1"),
    ]


async def test_before_the_first_table() -> None:
    found = await explained("reviews", table=None)
    assert (found.rule, found.code, found.answers) == (Rule.NO_TABLE, "SERVFAIL", ())


async def test_without_an_upstream_there_is_no_answer() -> None:
    found = await explained("gone.example")
    assert (found.origin, found.upstream, found.code) == (Origin.NONE, None, "SERVFAIL")


@pytest.mark.parametrize(
    ("name", "kind"), [("a" * 64, "A"), ("a..b", "A"), ("a b", "A"), ("a", "QQ"), ("a", "65536")]
)
async def test_what_cannot_be_asked(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=r"label|space|no type"):
        await explained(name, kind)


@given(st.binary(max_size=200))
def test_replies_of_any_form_do_no_harm(packet: bytes) -> None:
    with suppress(ValueError):
        shown_reply(packet)


@pytest.mark.parametrize(
    "text",
    [
        "www.example. 60 IN MX 10 mail.example.",
        'www.example. 60 IN TXT "a \\"b\\" c" "d"',
        "www.example. 60 IN SRV 1 2 3 target.example.",
        "www.example. 60 IN AAAA 2001:db8::1",
        "www.example. 60 IN CNAME other.example.",
    ],
)
def test_records_are_shown_as_in_zone_files(text: str) -> None:
    name, ttl, _, kind, data = text.split(" ", 4)
    reply = dns.message.from_text(
        f"id 1\nopcode QUERY\nrcode NOERROR\nflags QR\n;QUESTION\n{name} IN A\n;ANSWER\n{text}\n"
    )
    (shown,) = shown_reply(reply.to_wire()).answers
    assert (f"{shown.name}.", shown.type, shown.ttl_s, shown.data) == (name, kind, int(ttl), data)
    assert dns.rdatatype.from_text(shown.type)


async def test_a_forwarded_query_names_the_upstream_and_then_the_cache() -> None:
    def answering(packet: bytes, _: Over) -> list[tuple[float, bytes]]:
        return [(0, reply_to(packet, "192.0.2.1"))]

    async with upstream(answering) as fake:
        config = DnsConfig(
            listen=(ListenAddress("127.0.0.1", 0),), resolv_conf=None, upstreams=(fake.address,)
        )
        async with serving(config) as server:
            server.set_table(TABLE)
            await server.wait_table_in_use()
            first = await server.explain("www.example")
            second = await server.explain("www.example")
    assert (first.rule, first.origin, first.upstream) == (
        Rule.NOT_IN_TABLE,
        Origin.UPSTREAM,
        fake.address,
    )
    assert [each.data for each in first.answers] == ["192.0.2.1"]
    assert (second.origin, second.upstream, second.answers[0].data) == (
        Origin.CACHE,
        None,
        "192.0.2.1",
    )
    assert len(fake.queries) == 1
