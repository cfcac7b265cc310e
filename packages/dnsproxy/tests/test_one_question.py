"""One question upstream for one entry of the cache, however a client varies its query.

With many questions for one name open at a time, a forged reply is accepted if it guesses the id and
the port of any of them (the birthday attack on DNS, RFC 5452, section 5).
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import product

import dns.edns
import dns.flags
import dns.message
import pytest

from dns_peers import FakeUpstream, Over, TcpClient, answering, reply_to, running, upstream
from mesh_dnsproxy import DnsServer
from mesh_testkit import until

NAME = "victim.example."
VARIED = 60
LAST = dns.message.make_query("last.example.", "A", use_edns=-1).to_wire()


def good(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
    reply = reply_to(packet, "10.0.0.1")
    return [(0, len(reply).to_bytes(2, "big") + reply if over == "tcp" else reply)]


def option(code: int, data: bytes) -> dns.edns.Option:
    return dns.edns.GenericOption(dns.edns.OptionType.make(code), data)


def sizes() -> Iterator[bytes]:
    for size in range(512, 512 + VARIED):
        yield dns.message.make_query(NAME, "A", use_edns=0, payload=size).to_wire()


def spellings() -> Iterator[bytes]:
    for letters in list(product(*({c, c.upper()} for c in "victim")))[:VARIED]:
        yield dns.message.make_query("".join(letters) + ".example.", "A", use_edns=-1).to_wire()


def cookies() -> Iterator[bytes]:
    for number in range(VARIED):
        cookie = option(10, number.to_bytes(8, "big"))
        yield dns.message.make_query(NAME, "A", use_edns=0, options=[cookie]).to_wire()


def paddings() -> Iterator[bytes]:
    for number in range(VARIED):
        yield dns.message.make_query(
            NAME, "A", use_edns=0, options=[option(12, bytes(number))]
        ).to_wire()


def keepalives() -> Iterator[bytes]:
    for number in range(VARIED):
        kept = option(11, number.to_bytes(2, "big"))
        yield dns.message.make_query(NAME, "A", use_edns=0, options=[kept]).to_wire()


def unused_bits_of_the_header() -> Iterator[bytes]:
    """AA, TC, RA, the reserved bit and the code mean nothing in a query."""
    for bits in range(VARIED):
        packet = bytearray(dns.message.make_query(NAME, "A", use_edns=-1).to_wire())
        packet[2] |= (bits & 3) << 1
        packet[3] |= (bits >> 2 & 1) << 7 | (bits >> 3 & 1) << 6 | bits >> 4
        yield bytes(packet)


def unused_bits_of_edns() -> Iterator[bytes]:
    for bits in range(VARIED):
        query = dns.message.make_query(NAME, "A", use_edns=0, ednsflags=bits)
        yield query.to_wire()


@asynccontextmanager
async def held_back() -> AsyncIterator[tuple[FakeUpstream, DnsServer, tuple[str, int]]]:
    async with (
        upstream(good, holding=True) as up,
        running(answering(up.address), {}) as (server, address),
    ):
        yield up, server, address


async def asked_before_the_last(up: FakeUpstream) -> list[bytes]:
    """Wait for the question that is sent last; return those before."""
    await until(lambda: b"\4last" in b"".join(up.queries), what="the last question upstream")
    return [packet for packet in up.queries if b"\4last" not in packet]


@contextmanager
def socket_to(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(address)
        yield sock


@pytest.mark.parametrize(
    "variants",
    [
        sizes,
        spellings,
        cookies,
        paddings,
        keepalives,
        unused_bits_of_the_header,
        unused_bits_of_edns,
    ],
)
async def test_a_query_that_is_varied_in_what_its_answer_does_not_depend_on_is_asked_once(
    variants: Callable[[], Iterator[bytes]],
) -> None:
    loop = asyncio.get_running_loop()
    async with held_back() as (up, _, address):
        with socket_to(address) as sock:
            packets = list(variants())
            for packet in (*packets, LAST):
                await loop.sock_sendall(sock, packet)
            asked = await asked_before_the_last(up)
            assert len(asked) == 1, f"{len(asked)} questions upstream"
            up.let_go()
            for _ in (*packets, LAST):
                assert dns.message.from_wire(await loop.sock_recv(sock, 4096)).answer


async def test_over_tcp_the_question_that_is_open_over_udp_is_waited_for() -> None:
    packet = dns.message.make_query(NAME, "A", use_edns=-1).to_wire()
    loop = asyncio.get_running_loop()
    async with held_back() as (up, server, address), TcpClient(address) as client:
        with socket_to(address) as sock:
            await loop.sock_sendall(sock, packet)
            await until(lambda: up.queries, what="the question upstream")
            client.send(packet)
            await until(lambda: server.counts.requests == 2, what="the query over TCP")
            up.let_go()
            assert dns.message.from_wire(await client.receive()).answer
            assert dns.message.from_wire(await loop.sock_recv(sock, 4096)).answer
        assert len(up.queries) == 1


async def test_whatever_a_client_varies_few_questions_of_one_name_and_type_are_open() -> None:
    """RD, AD, CD, EDNS and DO change the answer: they are in the key of the cache, too."""
    loop = asyncio.get_running_loop()
    packets = []
    for rd, ad, cd, edns, do, size in product((0, 1), (0, 1), (0, 1), (-1, 0), (0, 1), (512, 4000)):
        query = dns.message.make_query(NAME, "A", use_edns=edns, payload=size)
        query.flags = dns.flags.Flag(rd * 0x100 | ad * 0x20 | cd * 0x10)
        if edns == 0:
            query.ednsflags = do * 0x8000
        packets.append(query.to_wire())
    async with held_back() as (up, _, address):
        with socket_to(address) as sock:
            for packet in (*packets, LAST):
                await loop.sock_sendall(sock, packet)
            asked = await asked_before_the_last(up)
        assert len(asked) == 8 * 3
        assert len({packet[2:] for packet in asked}) == 8 * 3


async def test_a_query_with_records_of_its_own_is_not_mistaken_for_one_without() -> None:
    """A signature, for example: neither is it left out, nor is the reply kept for others."""
    cookie = option(10, b"12345678")
    query = dns.message.make_query(NAME, "A", use_edns=0, options=[cookie]).to_wire()
    record = b"\0\xff\xfa\x00\xff\0\0\0\0\0\0"
    signed = query[:11] + b"\2" + query[12:] + record
    loop = asyncio.get_running_loop()
    async with held_back() as (up, _, address):
        with socket_to(address) as sock:
            await loop.sock_sendall(sock, signed)
            await loop.sock_sendall(sock, query)
            await loop.sock_sendall(sock, LAST)
            asked = await asked_before_the_last(up)
        assert [packet[2:] == signed[2:] for packet in asked] == [True, False]
