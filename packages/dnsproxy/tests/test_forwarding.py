"""Upstreams that misbehave, over real sockets: the right answer or SERVFAIL, for everyone."""

import asyncio
from collections.abc import Callable

import dns.flags
import dns.message
import dns.rcode
import pytest

from dns_peers import (
    PATIENT,
    QUICK,
    Behaviour,
    Over,
    TcpClient,
    answering,
    ask,
    ask_tcp,
    exchange,
    refusing_port,
    reply_to,
    running,
    upstream,
)
from mesh_dnsproxy import ByType, CacheConfig, Dropped, Upstream
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until

Sent = list[tuple[float, bytes]]
RIGHT = "10.0.0.1"


def framed(reply: bytes, over: Over) -> bytes:
    return len(reply).to_bytes(2, "big") + reply if over == "tcp" else reply


def behaving(make: Callable[[bytes], bytes], *, delay_s: float = 0.0) -> Behaviour:
    return lambda packet, over: [(delay_s, framed(make(packet), over))]


def good(packet: bytes, over: Over) -> Sent:
    return [(0, framed(reply_to(packet, RIGHT), over))]


def black_hole(packet: bytes, over: Over) -> Sent:
    del packet, over
    return []


def cut_over_udp(packet: bytes, over: Over) -> Sent:
    return good(packet, over) if over == "tcp" else [(0, reply_to(packet, truncated=True))]


def wrong_then_right(spoil: Callable[[bytes], bytes]) -> Behaviour:
    return lambda packet, over: [
        (0, framed(spoil(reply_to(packet, "6.6.6.6")), over)),
        (0.02, framed(reply_to(packet, RIGHT), over)),
    ]


def wrong_id(reply: bytes) -> bytes:
    return bytes((reply[0] ^ 0xFF,)) + reply[1:]


def wrong_question(reply: bytes) -> bytes:
    return reply.replace(b"\4name", b"\4nome")


def addresses(answer: dns.message.Message) -> list[str]:
    return [data.address for rrset in answer.answer for data in rrset]


@pytest.mark.parametrize(
    ("what", "behaviour"),
    [
        ("a good one", good),
        ("TC", cut_over_udp),
        ("a wrong id first", wrong_then_right(wrong_id)),
        ("another question first", wrong_then_right(wrong_question)),
        ("garbage first", wrong_then_right(lambda reply: reply[:2] + b"\xff" * 30)),
        ("half a reply first", wrong_then_right(lambda reply: reply[:-5])),
        ("a query first", wrong_then_right(lambda reply: reply[:2] + b"\1\0" + reply[4:])),
        ("a reply after the next try", behaving(lambda p: reply_to(p, RIGHT), delay_s=0.5)),
    ],
)
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_bad_server_that_ends_well_gives_the_right_answer(
    what: str, behaviour: Behaviour, *, parallel: bool
) -> None:
    del what
    config = QUICK._replace(parallel=parallel, total_timeout_s=30.0)
    async with (
        upstream(behaviour) as up,
        running(answering(up.address, forward=config), {}) as (_, address),
    ):
        assert addresses(await ask(address, "name.example.")) == [RIGHT]


@pytest.mark.parametrize(
    ("what", "behaviour"),
    [
        ("a black hole", black_hole),
        ("REFUSED", behaving(lambda packet: reply_to(packet, rcode=5))),
        ("SERVFAIL", behaving(lambda packet: reply_to(packet, rcode=2))),
        ("garbage only", behaving(lambda packet: packet[:2] + b"\xff" * 9)),
        ("wrong ids only", behaving(lambda packet: wrong_id(reply_to(packet, "6.6.6.6")))),
        ("other questions only", behaving(lambda p: wrong_question(reply_to(p, "6.6.6.6")))),
    ],
)
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_bad_first_server_is_compensated_by_the_second(
    what: str, behaviour: Behaviour, *, parallel: bool
) -> None:
    del what
    config = QUICK._replace(parallel=parallel, total_timeout_s=30.0)
    async with (
        upstream(behaviour) as bad,
        upstream(good) as fine,
        running(answering(bad.address, fine.address, forward=config), {}) as (_, address),
    ):
        for number in range(4):
            answer = await ask(address, f"name.{number}.example.")
            assert addresses(answer) == [RIGHT]
            assert addresses(await ask_tcp(address, f"name.{number}.tcp.example.")) == [RIGHT]


async def test_a_dead_first_server_is_compensated_by_the_second() -> None:
    dead = Upstream("127.0.0.1", refusing_port())
    config = QUICK._replace(total_timeout_s=30.0)
    async with (
        upstream(good) as fine,
        running(answering(dead, fine.address, forward=config), {}) as (_, address),
    ):
        assert addresses(await ask(address, "name.example.")) == [RIGHT]
        assert addresses(await ask_tcp(address, "name.tcp.example.")) == [RIGHT]


@pytest.mark.parametrize("parallel", [False, True])
async def test_when_all_are_dead_everybody_is_answered_servfail_and_never_nxdomain(
    *, parallel: bool
) -> None:
    dead = Upstream("127.0.0.1", refusing_port())
    config = QUICK._replace(parallel=parallel)
    async with (
        upstream(black_hole) as hole,
        running(answering(dead, hole.address, forward=config), {}) as (server, address),
    ):
        answers = await asyncio.gather(
            *(ask(address, f"name.{number}.example.") for number in range(50)),
            ask_tcp(address, "name.tcp.example."),
        )
        assert {answer.rcode() for answer in answers} == {dns.rcode.SERVFAIL}
        assert server.counts.upstream_failures == 51
    async with running(answering(), {}) as (_, address):
        assert (await ask(address, "name.example.")).rcode() == dns.rcode.SERVFAIL


async def test_an_error_of_all_servers_is_passed_on_as_the_first_said_it() -> None:
    refused = behaving(lambda packet: reply_to(packet, rcode=5))
    failed = behaving(lambda packet: reply_to(packet, rcode=2))
    async with (
        upstream(refused) as one,
        upstream(failed) as two,
        running(answering(one.address, two.address), {}) as (_, address),
    ):
        assert (await ask(address, "name.example.")).rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize(
    "ending",
    [
        lambda _: [(0, b"\0\x40half")],
        lambda _: [(0, b"\0")],
        lambda _: [(0, b"\0\0")],
        lambda packet: [(0, framed(wrong_id(reply_to(packet, RIGHT)), "tcp"))] * 5,
    ],
)
async def test_half_a_tcp_frame_is_a_failure_in_time(ending: Callable[[bytes], Sent]) -> None:
    def half(packet: bytes, over: Over) -> Sent:
        return ending(packet) if over == "tcp" else black_hole(packet, over)

    async with (
        upstream(half) as up,
        running(answering(up.address, forward=QUICK), {}) as (_, address),
    ):
        assert (await ask_tcp(address, "name.example.")).rcode() == dns.rcode.SERVFAIL


async def test_a_cut_reply_whose_rest_cannot_be_fetched_is_passed_on() -> None:
    def cut(packet: bytes, over: Over) -> Sent:
        if over == "tcp":
            return [(0, framed(wrong_id(reply_to(packet, RIGHT)), over))] * 5
        return [(0, reply_to(packet, RIGHT, truncated=True))]

    async with upstream(cut) as up, running(answering(up.address), {}) as (_, address):
        answer = await ask(address, "name.example.")
        assert answer.flags & dns.flags.TC
        assert addresses(answer) == [RIGHT]


async def test_a_long_reply_is_cut_to_the_clients_size_and_kept_whole() -> None:
    many = [f"10.1.0.{number}" for number in range(60)]

    def long(packet: bytes, over: Over) -> Sent:
        whole = reply_to(packet, *many)
        return [(0, framed(whole, over) if over == "tcp" else reply_to(packet, truncated=True))]

    async with upstream(long) as up, running(answering(up.address), {}) as (_, address):
        answer = await ask(address, "name.example.")
        assert answer.flags & dns.flags.TC
        assert len(addresses(answer)) == (512 - 12 - 18) // 16
        assert sorted(addresses(await ask_tcp(address, "name.example."))) == sorted(many)
        assert up.over_tcp == 1


async def test_a_reply_is_passed_on_unchanged_but_for_the_id() -> None:
    replies = []

    def strange(packet: bytes, over: Over) -> Sent:
        del over
        reply = dns.message.make_response(dns.message.from_wire(packet), our_payload=1400)
        reply.flags |= dns.flags.AD | dns.flags.AA
        reply.answer.append(
            dns.rrset.from_text("Other.example.", 7, "IN", "TYPE65280", r"\# 4 01020304")
        )
        replies.append(reply.to_wire())
        return [(0, replies[-1])]

    async with upstream(strange) as up, running(answering(up.address), {}) as (_, address):
        query = dns.message.make_query("NAME.example.", "A", want_dnssec=True)
        query.flags |= dns.flags.CD | dns.flags.AD
        sent = query.to_wire()
        answer = await exchange(address, sent)
        assert answer[:2] == sent[:2]
        assert answer[2:].lower() == replies[0][2:].lower()
        assert answer[12 : 12 + 14] == sent[12 : 12 + 14]  # the letters as they were asked
        assert up.queries[0][2:] == sent[2:].lower()
        assert up.queries[0][:2] != sent[:2] or len(up.queries) == 1


async def test_ids_and_ports_are_others_each_time() -> None:
    config = answering(cache=None)
    async with upstream(good) as up:
        async with running(config._replace(upstreams=(up.address,)), {}) as (_, address):
            for number in range(30):
                await ask(address, f"name.{number}.example.")
        assert len({packet[:2] for packet in up.queries}) >= 29
        assert len({port for _, port in up.sources}) >= 25


async def test_with_few_sockets_questions_share_them() -> None:
    config = PATIENT._replace(max_sockets=2)
    async with (
        upstream(good, holding=True) as up,
        running(answering(up.address, forward=config), {}) as (_, address),
    ):
        asked = [asyncio.create_task(ask(address, f"name.{n}.example.")) for n in range(40)]
        await until(lambda: len(up.queries) == 40, what="all questions upstream")
        up.let_go()
        assert all(addresses(answer) == [RIGHT] for answer in await asyncio.gather(*asked))
        assert len({port for _, port in up.sources}) == 2


async def test_names_below_a_suffix_have_servers_of_their_own() -> None:
    other = behaving(lambda packet: reply_to(packet, "10.0.0.2"))
    async with upstream(good) as default, upstream(other) as special:
        config = answering(default.address, suffix_upstreams={"corp.example": (special.address,)})
        async with running(config, {}) as (_, address):
            assert addresses(await ask(address, "a.corp.example.")) == ["10.0.0.2"]
            assert addresses(await ask(address, "a.example.")) == [RIGHT]
            assert addresses(await ask(address, "acorp.example.")) == [RIGHT]


async def test_replies_are_kept_for_their_ttl_and_used_when_stale_if_no_server_answers() -> None:
    clock = ManualClock()
    mortal = Upstream("127.0.0.1", refusing_port())
    async with running(answering(mortal), {}, clock=clock) as (server, address):
        counts = server.counts
        async with upstream(good, port=mortal.port) as up:
            assert addresses(await ask(address, "name.example.")) == [RIGHT]
            await clock.advance(20)
            answer = await ask(address, "NAME.example.")
            assert answer.answer[0].ttl == 40
            assert answer.answer[0].name.to_text() == "NAME.example."
            assert len(up.queries) == 1
        await clock.advance(100)
        answer = await ask(address, "name.example.")
        assert addresses(answer) == [RIGHT]
        assert answer.answer[0].ttl == 30
        assert counts.upstream_requests == 2
        assert addresses(await ask(address, "name.example.")) == [RIGHT]
        assert counts.upstream_requests == 2
        assert (await ask(address, "name.other.example.")).rcode() == dns.rcode.SERVFAIL
        async with upstream(good, port=mortal.port):
            await clock.advance(31)
            answer = await ask(address, "name.example.")
            assert answer.answer[0].ttl == 60
        assert counts.by_type(ByType.CACHE_HITS)["A"] == 1
        assert counts.by_type(ByType.STALE)["A"] == 2


async def test_a_slow_server_is_not_waited_for_when_there_is_a_stale_answer() -> None:
    clock = ManualClock()
    delay_s = 0.0

    def slower(packet: bytes, over: Over) -> Sent:
        return [(delay_s, framed(reply_to(packet, RIGHT, ttl=5), over))]

    config = answering(cache=CacheConfig(stale_after_s=0.05))
    async with upstream(slower) as up:
        settings = config._replace(upstreams=(up.address,))
        async with running(settings, {}, clock=clock) as (server, address):
            await ask(address, "name.example.")
            delay_s = 1.0
            await clock.advance(6)
            assert (await ask(address, "name.example.")).answer[0].ttl == 30
            assert server.counts.by_type(ByType.STALE)["A"] == 1
            while server.counts.by_type(ByType.CACHE_HITS)["A"] == 0:
                await ask(address, "name.example.")


@pytest.mark.parametrize("stale", [False, True])
async def test_without_serve_stale_a_dead_server_is_servfail(*, stale: bool) -> None:
    clock = ManualClock()
    mortal = Upstream("127.0.0.1", refusing_port())
    config = answering(mortal, cache=CacheConfig(serve_stale=stale))
    async with running(config, {}, clock=clock) as (_, address):
        async with upstream(good, port=mortal.port):
            assert addresses(await ask(address, "name.example.")) == [RIGHT]
        await clock.advance(100)
        rcode = (await ask(address, "name.example.")).rcode()
        assert rcode == (dns.rcode.NOERROR if stale else dns.rcode.SERVFAIL)


async def test_that_there_is_none_is_kept_too_unless_it_is_not_wanted() -> None:
    none = behaving(lambda packet: reply_to(packet, rcode=3, soa=True))
    for negative, asked in ((True, 1), (False, 2)):
        async with upstream(none) as up:
            config = answering(up.address, cache=CacheConfig(negative=negative))
            async with running(config, {}) as (_, address):
                for _ in range(2):
                    assert (await ask(address, "name.example.")).rcode() == dns.rcode.NXDOMAIN
            assert len(up.queries) == asked


@pytest.mark.parametrize(("coalesce", "asked"), [(True, 1), (False, 20)])
async def test_the_same_question_is_asked_once_for_all_who_wait(
    *, coalesce: bool, asked: int
) -> None:
    config = PATIENT._replace(coalesce=coalesce)
    async with (
        upstream(good, holding=True) as up,
        running(answering(up.address, forward=config, cache=None), {}) as (server, address),
    ):
        waiting = [asyncio.create_task(ask(address, "name.example.")) for _ in range(20)]
        await until(lambda: server.counts.requests == 20, what="everybody's question")
        await until(lambda: len(up.queries) >= asked, what="the questions upstream")
        up.let_go()
        assert all(addresses(answer) == [RIGHT] for answer in await asyncio.gather(*waiting))
        assert len(up.queries) == asked
        assert server.counts.by_type(ByType.COALESCED).get("A", 0) == 20 - asked


@pytest.mark.parametrize(("questions", "waiting_queries"), [(5, 100), (100, 5)])
async def test_on_overload_who_waits_for_longest_is_answered_servfail_at_once(
    questions: int, waiting_queries: int
) -> None:
    config = PATIENT._replace(max_questions=questions, max_waiting=waiting_queries)
    async with (
        upstream(black_hole) as up,
        running(answering(up.address, forward=config), {}) as (server, address),
    ):
        waiting = []
        for n in range(6):
            waiting.append(asyncio.create_task(ask(address, f"name.{n}.example.")))
            await up.wait_asked(n + 1)
        assert (await waiting[0]).rcode() == dns.rcode.SERVFAIL
        assert server.counts.error_answers[dns.rcode.SERVFAIL] == 1
        assert server.counts.gave_way == 1
        for each in waiting[1:]:
            each.cancel()


async def test_what_is_open_when_the_server_stops_is_answered() -> None:
    async with upstream(black_hole) as up:
        async with running(answering(up.address), {}) as (_, address):
            waiting = [asyncio.create_task(ask(address, f"name.{n}.example.")) for n in range(5)]
            await until(lambda: len(up.queries) == 5, what="five questions upstream")
        for answer in await asyncio.gather(*waiting):
            assert answer.rcode() == dns.rcode.SERVFAIL


async def test_a_query_of_ours_that_comes_back_is_ended() -> None:
    async with running(answering(forward=QUICK), {}) as (server, address):
        # As if the firewall led what is sent to another server back to this one.
        server._forwarder.set_routes(type(server._forwarder.routes)((Upstream(*address),), {}))
        assert (await ask(address, "name.example.")).rcode() == dns.rcode.SERVFAIL
        assert server.counts.dropped[Dropped.OWN_QUERY] >= 1


async def test_foreign_and_late_replies_are_dropped_and_counted() -> None:
    twice = wrong_then_right(wrong_id)
    async with upstream(twice) as up, running(answering(up.address), {}) as (server, address):
        await ask(address, "name.example.")
        assert server.counts.dropped[Dropped.FOREIGN_REPLY] == 1


async def test_a_client_that_left_costs_no_other_client_an_answer() -> None:
    delayed = behaving(lambda packet: reply_to(packet, RIGHT), delay_s=0.1)
    async with upstream(delayed) as up, running(answering(up.address), {}) as (_, address):
        async with TcpClient(address) as client:
            client.send(dns.message.make_query("name.example.", "A").to_wire())
            await until(lambda: up.queries, what="the question upstream")
        assert addresses(await ask_tcp(address, "name.example.")) == [RIGHT]
