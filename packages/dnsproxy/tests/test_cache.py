"""What is kept, for how long, and in how much memory; time is handed in."""

import dns.edns
import dns.flags
import dns.message
import dns.rrset
from hypothesis import given
from hypothesis import strategies as st

from dns_peers import reply_to
from mesh_dnsproxy import CacheConfig
from mesh_dnsproxy.forwarding._cache import CacheKey, ReplyCache, State, cache_key
from mesh_dnsproxy.message._query import Query, parse_query


def key_of(packet: bytes) -> CacheKey | None:
    query = parse_query(packet)
    assert isinstance(query, Query)
    return cache_key(query)


def question(
    name: str = "a.example.",
    kind: str = "A",
    *,
    use_edns: int = -1,
    options: list[dns.edns.Option] | None = None,
) -> bytes:
    query = dns.message.make_query(name, kind, use_edns=use_edns, options=options)
    return query.to_wire()


def kept(cache: ReplyCache, packet: bytes, reply: bytes, now: float = 0.0) -> CacheKey:
    key = key_of(packet)
    assert key is not None
    cache.put(key, reply, now)
    return key


def ttls(reply: bytes) -> list[int]:
    message = dns.message.from_wire(reply)
    return [rrset.ttl for section in message.sections[1:3] for rrset in section]


def test_a_reply_is_fresh_for_its_ttl_which_counts_down() -> None:
    cache = ReplyCache(CacheConfig())
    packet = question()
    key = kept(cache, packet, reply_to(packet, "10.0.0.1", ttl=60))
    found = cache.get(key, 59.9)
    assert found is not None
    assert found.state is State.FRESH
    assert ttls(found.reply) == [1]
    expired = cache.get(key, 60.0)
    assert expired is not None
    assert expired.state is State.STALE
    assert ttls(expired.reply) == [30]
    assert cache.get(key, 60.0 + 86400.0) is None


def test_what_expired_is_used_at_once_after_servers_have_failed() -> None:
    cache = ReplyCache(CacheConfig(stale_retry_s=30.0))
    packet = question()
    key = kept(cache, packet, reply_to(packet, "10.0.0.1", ttl=10))
    cache.on_no_answer(key, 20.0)
    states = []
    for now in (21.0, 49.0, 51.0):
        found = cache.get(key, now)
        assert found is not None
        states.append(found.state)
    assert states == [State.STALE_NOW, State.STALE_NOW, State.STALE]


def test_expired_is_gone_when_stale_is_not_wanted() -> None:
    cache = ReplyCache(CacheConfig(serve_stale=False))
    packet = question()
    key = kept(cache, packet, reply_to(packet, "10.0.0.1", ttl=10))
    assert cache.get(key, 9.0) is not None
    assert cache.get(key, 10.0) is None
    assert len(cache) == cache.size_bytes == 0


def test_that_there_is_none_holds_as_long_as_the_soa_says() -> None:
    for rcode in (0, 3):
        cache = ReplyCache(CacheConfig())
        packet = question()
        key = kept(cache, packet, reply_to(packet, rcode=rcode, soa=True, ttl=20))
        found = cache.get(key, 19.0)
        assert found is not None
        assert found.state is State.FRESH
        assert cache.get(key, 20.0) is not None
        off = ReplyCache(CacheConfig(negative=False))
        kept(off, packet, reply_to(packet, rcode=rcode, soa=True, ttl=20))
        assert len(off) == 0


def test_no_soa_no_ttl_and_too_large_are_not_kept() -> None:
    cache = ReplyCache(CacheConfig())
    packet = question()
    kept(cache, packet, reply_to(packet, rcode=3))
    kept(cache, packet, reply_to(packet, "10.0.0.1", ttl=0))
    kept(cache, packet, reply_to(packet, *(f"10.1.{n >> 8}.{n & 255}" for n in range(1200))))
    assert len(cache) == 0


def test_ttls_are_capped() -> None:
    cache = ReplyCache(CacheConfig(max_ttl_s=100, max_negative_ttl_s=5))
    packet = question()
    key = kept(cache, packet, reply_to(packet, "10.0.0.1", ttl=100_000))
    found = cache.get(key, 0.0)
    assert found is not None
    assert ttls(found.reply) == [100]
    key = kept(cache, packet, reply_to(packet, rcode=3, soa=True, ttl=1000))
    found = cache.get(key, 6.0)
    assert found is not None
    assert found.state is State.STALE


def test_a_cookie_is_its_askers_own() -> None:
    cookie = dns.edns.GenericOption(dns.edns.OptionType.make(10), b"12345678")
    packet = question(use_edns=0, options=[cookie])
    reply = dns.message.from_wire(reply_to(packet, "10.0.0.1"))
    reply.use_edns(
        0, options=[dns.edns.GenericOption(dns.edns.OptionType.make(10), b"12345678" * 2)]
    )
    cache = ReplyCache(CacheConfig())
    key = kept(cache, packet, reply.to_wire())
    assert key == key_of(question(use_edns=0))
    found = cache.get(key, 1.0)
    assert found is not None
    message = dns.message.from_wire(found.reply)
    assert message.edns == 0
    assert not message.options


def test_who_gets_the_same_reply() -> None:
    plain = key_of(question())
    assert key_of(question("A.eXample.")) == plain
    signed = dns.message.make_query("a.example.", "A", want_dnssec=True)
    unchecked = dns.message.make_query("a.example.", "A", use_edns=-1)
    unchecked.flags |= dns.flags.CD
    others = [
        question(kind="AAAA"),
        question("b.example."),
        question(use_edns=0),
        signed.to_wire(),
        unchecked.to_wire(),
    ]
    keys = {plain, *map(key_of, others)}
    assert len(keys) == 6
    subnet = question(use_edns=0, options=[dns.edns.ECSOption("10.0.0.0", 24)])
    assert key_of(subnet) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), max_size=25))
def test_the_bound_is_kept_and_the_sizes_add_up(puts: list[tuple[int, int]]) -> None:
    cache = ReplyCache(CacheConfig(max_bytes=8_000))
    for now, (name, count) in enumerate(puts):
        packet = question(f"n{name}.example.")
        addresses = [f"10.0.0.{n}" for n in range(count)]
        key = kept(cache, packet, reply_to(packet, *addresses), float(now))
        assert cache.get(key, float(now)) is not None
        assert cache.size_bytes <= 8_000
        assert cache.size_bytes == sum(each.size for each in cache._entries.values())


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    cache = ReplyCache(CacheConfig(max_bytes=3_000))
    keys = []
    for name in "abcd":
        packet = question(f"{name}.example.")
        keys.append(kept(cache, packet, reply_to(packet, "10.0.0.1")))
    assert len(cache) == 4
    cache.get(keys[0], 1.0)
    packet = question("e.example.")
    kept(cache, packet, reply_to(packet, "10.0.0.1"))
    assert cache.get(keys[1], 1.0) is None
    assert cache.get(keys[0], 1.0) is not None
