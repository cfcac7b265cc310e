"""Replies of an upstream that are valid and of no use: what a client gets, and what is kept."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from dns_peers import (
    QUICK,
    Behaviour,
    Over,
    TcpClient,
    answering,
    ask,
    ask_tcp,
    reply_to,
    running,
    upstream,
)
from mesh_dnsproxy import NameEntry

RIGHT = "10.0.0.1"
Edit = Callable[[dns.message.Message], None]


def framed(reply: bytes, over: Over) -> list[tuple[float, bytes]]:
    return [(0, len(reply).to_bytes(2, "big") + reply if over == "tcp" else reply)]


def good(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
    return framed(reply_to(packet, RIGHT), over)


def replying(edit: Edit, *, recursive: bool = True) -> Behaviour:
    """Replies without records, which `edit` changes."""

    def behaviour(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        reply = dns.message.make_response(
            dns.message.from_wire(packet), recursion_available=recursive
        )
        edit(reply)
        return framed(reply.to_wire(max_size=65535), over)

    return behaviour


def nothing(reply: dns.message.Message) -> None:
    del reply


def no_such_name(reply: dns.message.Message) -> None:
    reply.set_rcode(dns.rcode.NXDOMAIN)


def records(section: str, *texts: tuple[str, int, str, str]) -> Edit:
    def edit(reply: dns.message.Message) -> None:
        for name, ttl, kind, data in texts:
            found = dns.rrset.from_text(name, ttl, "IN", kind, data)
            (reply.answer if section == "answer" else reply.authority).append(found)

    return edit


LOOP = records(
    "answer",
    ("name.example.", 60, "CNAME", "other.example."),
    ("other.example.", 60, "CNAME", "name.example."),
)
ITSELF = records("answer", ("name.example.", 60, "CNAME", "name.example."))
REFERRAL = records("authority", ("example.", 60, "NS", "ns.example."))


@pytest.mark.parametrize(
    ("edit", "rcode", "kept"),
    [
        (nothing, dns.rcode.NOERROR, False),
        (no_such_name, dns.rcode.NXDOMAIN, False),
        (LOOP, dns.rcode.NOERROR, True),
        (ITSELF, dns.rcode.NOERROR, True),
        (records("answer", ("name.example.", 0, "A", RIGHT)), dns.rcode.NOERROR, False),
        (records("answer", ("name.example.", 2**31 - 1, "A", RIGHT)), dns.rcode.NOERROR, True),
    ],
    ids=["nothing", "NXDOMAIN without SOA", "a loop", "itself", "TTL 0", "the longest TTL"],
)
async def test_a_reply_is_passed_on_once_and_kept_as_long_as_it_says(
    edit: Edit, rcode: int, *, kept: bool
) -> None:
    async with (
        upstream(replying(edit)) as up,
        running(answering(up.address), {}) as (_, address),
    ):
        for _ in range(2):
            assert (await ask(address, "name.example.")).rcode() == rcode
        assert len(up.queries) == (1 if kept else 2)
        if kept:
            answer = await ask(address, "name.example.")
            assert all(each.ttl <= 3600 for each in answer.answer)


async def test_a_ttl_with_its_first_bit_set_is_none() -> None:
    def behaviour(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        reply = reply_to(packet, RIGHT, ttl=0x7FFFFFFF)
        return framed(reply.replace(b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00"), over)

    async with upstream(behaviour) as up, running(answering(up.address), {}) as (_, address):
        for _ in range(2):
            assert (await ask(address, "name.example.")).answer
        assert len(up.queries) == 2


async def test_a_server_that_only_names_others_is_compensated_by_the_next() -> None:
    async with (
        upstream(replying(REFERRAL, recursive=False)) as lame,
        upstream(good) as fine,
        running(answering(lame.address, fine.address), {}) as (_, address),
    ):
        assert (await ask(address, "name.example.")).answer
        assert lame.queries


async def test_if_all_only_name_others_the_client_gets_what_they_say() -> None:
    async with (
        upstream(replying(REFERRAL, recursive=False)) as lame,
        running(answering(lame.address), {}) as (_, address),
    ):
        answer = await ask(address, "name.example.")
        assert answer.rcode() == dns.rcode.NOERROR
        assert not answer.answer
        assert answer.authority


async def test_a_cut_reply_with_nothing_over_udp_and_tcp_is_answered_in_time() -> None:
    def cut(reply: dns.message.Message) -> None:
        reply.flags |= dns.flags.TC

    async with (
        upstream(replying(cut)) as up,
        running(answering(up.address, forward=QUICK), {}) as (_, address),
    ):
        answer = await ask(address, "name.example.")
        assert answer.flags & dns.flags.TC
        assert not (await ask_tcp(address, "name.example.")).answer


async def test_the_largest_reply_there_is_fits_over_tcp_and_is_cut_over_udp() -> None:
    def large(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        if over == "udp":
            return [(0, reply_to(packet, truncated=True))]
        return framed(reply_to(packet, *(f"10.{n >> 8}.{n & 255}.1" for n in range(4093))), over)

    async with upstream(large) as up, running(answering(up.address), {}) as (server, address):
        whole = await ask_tcp(address, "name.example.")
        assert len(whole.answer[0]) == 4093
        assert (await ask(address, "name.example.")).flags & dns.flags.TC
        assert server.sizes().cache_entries == 0


async def test_records_about_another_name_are_not_used_for_it() -> None:
    both = records(
        "answer", ("name.example.", 60, "A", RIGHT), ("bank.example.", 60, "A", "6.6.6.6")
    )

    def behaviour(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        first = b"\4name" in packet
        return replying(both)(packet, over) if first else good(packet, over)

    async with upstream(behaviour) as up, running(answering(up.address), {}) as (_, address):
        await ask(address, "name.example.")
        answer = await ask(address, "bank.example.")
        assert [data.address for data in answer.answer[0]] == [RIGHT]


async def test_of_a_and_aaaa_from_one_socket_at_once_one_is_cut_and_then_whole_over_tcp() -> None:
    """As the C library asks, for a host with more addresses than fit in 512 bytes."""
    many = tuple(f"10.0.{n >> 8}.{n & 255}" for n in range(300))
    loop = asyncio.get_running_loop()
    entries = {"giant.example": NameEntry((*many, "2001:db8::1"))}
    async with running(answering(), entries) as (_, address):
        queries = [dns.message.make_query("giant.example.", kind) for kind in ("A", "AAAA")]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect(address)
            for query in queries:
                await loop.sock_sendall(sock, query.to_wire())
            answers = [dns.message.from_wire(await loop.sock_recv(sock, 4096)) for _ in range(2)]
        cut = {each.question[0].rdtype: bool(each.flags & dns.flags.TC) for each in answers}
        assert cut == {dns.rdatatype.A: True, dns.rdatatype.AAAA: False}
        async with TcpClient(address) as client:
            for query in queries:
                client.send(query.to_wire())
            whole = [dns.message.from_wire(await client.receive()) for _ in range(2)]
        assert sorted(len(each.answer[0]) for each in whole) == [1, 300]


async def test_two_hundred_that_send_a_byte_at_a_time_keep_no_other_from_an_answer() -> None:
    frame = dns.message.make_query("known.example.", "A").to_wire()
    entries = {"known.example": NameEntry((RIGHT,))}
    async with running(answering(), entries) as (server, address):
        with ExitStack() as stack:
            slow = [stack.enter_context(socket.socket()) for _ in range(200)]
            for each in slow:
                each.setblocking(False)
                await asyncio.get_running_loop().sock_connect(each, address)
            for byte in len(frame).to_bytes(2, "big") + frame[:4]:
                for each in slow:
                    with suppress(ConnectionError):
                        each.send(bytes((byte,)))
                for _ in range(3):
                    assert (await ask_tcp(address, "known.example.")).answer
                assert (await ask(address, "known.example.")).answer
            assert server.counts.tcp_connections <= 151
