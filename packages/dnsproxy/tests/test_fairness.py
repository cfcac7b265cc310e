"""One client's load does not take another's answers: each bound gives way in favour of others."""

import asyncio
import socket
import struct
from collections import Counter
from contextlib import AsyncExitStack, ExitStack

import dns.message
import dns.rcode
from hypothesis import given
from hypothesis import strategies as st

from dns_peers import (
    PATIENT,
    Over,
    TcpClient,
    answering,
    ask,
    ask_tcp,
    reply_to,
    running,
    upstream,
)
from mesh_dnsproxy import NameEntry, TcpConfig
from mesh_dnsproxy.forwarding._shares import Client, Shares
from mesh_testkit import until

Sent = list[tuple[float, bytes]]


def silent(packet: bytes, over: Over) -> Sent:
    del packet, over
    return []


def good(packet: bytes, over: Over) -> Sent:
    reply = reply_to(packet, "10.0.0.1")
    return [(0, len(reply).to_bytes(2, "big") + reply if over == "tcp" else reply)]


def silent_below_never(packet: bytes, over: Over) -> Sent:
    """One resolver, which waits in vain for the servers of one domain, as anybody may have."""
    return [] if b"\5never" in packet else good(packet, over)


def query(name: str) -> bytes:
    return dns.message.make_query(name, "A", use_edns=-1).to_wire()


async def test_who_asks_over_tcp_is_served_beside_a_peer_that_has_all_connections_waiting() -> None:
    config = answering(tcp=TcpConfig(max_connections=10), forward=PATIENT)
    async with upstream(silent_below_never) as up, AsyncExitStack() as stack:
        settings = config._replace(upstreams=(up.address,))
        _, address = await stack.enter_async_context(running(settings, {}))
        for number in range(15):
            client = await stack.enter_async_context(TcpClient(address))
            client.send(query(f"n{number}.never.example."))
            await up.wait_asked(number + 1)
        for number in range(10):
            answer = await ask_tcp(address, f"n{number}.fine.example.")
            assert answer.rcode() == dns.rcode.NOERROR


async def test_a_connection_that_is_closed_takes_its_queries_with_it() -> None:
    async with (
        upstream(silent) as up,
        running(answering(up.address), {}) as (server, address),
    ):
        async with TcpClient(address) as client:
            for number in range(5):
                client.send(query(f"n{number}.never.example."))
            await until(lambda: len(up.queries) == 5, what="the questions upstream")
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.writer.transport.abort()  # not only an end of what it says
        await until(lambda: not len(server._forwarder._waiting), what="no query waiting")


async def test_names_of_a_healthy_upstream_are_answered_beside_a_silent_one() -> None:
    """The other client has a socket for each query, so that it looks like many clients."""
    config = PATIENT._replace(max_questions=20, max_waiting=60)
    async with upstream(silent) as dead, upstream(good) as fine, AsyncExitStack() as stack:
        settings = answering(
            dead.address, suffix_upstreams={"fine.example": (fine.address,)}, forward=config
        )
        server, address = await stack.enter_async_context(running(settings, {}))
        flood_from_many_sockets(address, 50, stack.enter_context(ExitStack()))
        await until(lambda: server.counts.requests == 50, what="the flood being read")
        for number in range(10):
            answer = await ask(address, f"n{number}.fine.example.")
            assert answer.rcode() == dns.rcode.NOERROR


async def test_names_that_a_resolver_answers_are_answered_beside_those_it_is_silent_about() -> None:
    config = PATIENT._replace(max_questions=20, max_waiting=30)
    async with upstream(silent_below_never) as up, AsyncExitStack() as stack:
        server, address = await stack.enter_async_context(
            running(answering(up.address, forward=config), {})
        )
        flood_from_many_sockets(address, 50, stack.enter_context(ExitStack()))
        await until(lambda: server.counts.requests == 50, what="the flood being read")
        for number in range(10):
            answer = await ask(address, f"n{number}.fine.example.")
            assert answer.rcode() == dns.rcode.NOERROR


async def test_a_slow_answer_is_still_waited_for_beside_a_flood_of_another_socket() -> None:
    config = PATIENT._replace(max_questions=20, max_waiting=20)
    async with upstream(good, holding=True) as up, AsyncExitStack() as stack:
        server, address = await stack.enter_async_context(
            running(answering(up.address, forward=config), {})
        )
        slow = asyncio.create_task(ask(address, "slow.example."))
        await until(lambda: up.queries, what="the slow question")
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for number in range(100):
            sock.sendto(query(f"n{number}.flood.example."), address)
        await until(lambda: server.counts.gave_way >= 81, what="the flood displacing itself")
        up.let_go()
        assert (await slow).rcode() == dns.rcode.NOERROR


async def test_a_long_reply_is_fetched_over_tcp_beside_a_client_whose_are_never_sent() -> None:
    """Replies that are cut over UDP take a connection to the upstream, of which there are few."""

    def cut(packet: bytes, over: Over) -> Sent:
        if over == "udp":
            return [(0, reply_to(packet, truncated=True))]
        return good(packet, over)

    def behaviour(packet: bytes, over: Over) -> Sent:
        return [] if over == "tcp" and b"\5never" in packet else cut(packet, over)

    config = PATIENT._replace(max_tcp_connections=4)
    async with upstream(behaviour) as up, AsyncExitStack() as stack:
        server, address = await stack.enter_async_context(
            running(answering(up.address, forward=config), {})
        )
        flood_from_many_sockets(address, 20, stack.enter_context(ExitStack()))
        await until(lambda: server.counts.gave_way >= 16, what="the flood displacing itself")
        for number in range(10):
            answer = await ask_tcp(address, f"n{number}.fine.example.")
            assert answer.rcode() == dns.rcode.NOERROR


async def test_the_meshs_names_are_answered_whatever_waits() -> None:
    config = PATIENT._replace(max_questions=5, max_waiting=5)
    entries = {"known.example": NameEntry(("10.0.0.1",))}
    async with upstream(silent) as up, AsyncExitStack() as stack:
        _, address = await stack.enter_async_context(
            running(answering(up.address, forward=config), entries)
        )
        flood_from_many_sockets(address, 20, stack.enter_context(ExitStack()))
        await until(lambda: len(up.queries) >= 20, what="the flood's questions")
        assert (await ask(address, "known.example.")).answer


def flood_from_many_sockets(address: tuple[str, int], count: int, stack: ExitStack) -> None:
    for number in range(count):
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sock.sendto(query(f"n{number}.never.example."), address)


clients = st.builds(Client, st.sampled_from("abc"), st.integers(1, 4))


@given(st.integers(1, 8), st.lists(st.tuples(clients, st.booleans()), max_size=60))
def test_the_oldest_of_the_largest_gives_way_and_the_bound_is_kept(
    most: int, steps: list[tuple[Client, bool]]
) -> None:
    shares: Shares[int] = Shares(most)
    held: dict[int, Client] = {}
    for number, (client, leaves) in enumerate(steps):
        if leaves and held:
            gone = next(iter(held))
            shares.discard(gone)
            shares.discard(gone)
            del held[gone]
        held[number] = client
        out = shares.add(number, client)
        assert (out is not None) == (len(held) > most)
        if out is not None:
            of_address = Counter(each.address for each in held.values())
            of_client = Counter(held.values())
            loser = held[out]
            assert of_address[loser.address] == max(of_address.values())
            same_address = [n for c, n in of_client.items() if c.address == loser.address]
            assert of_client[loser] == max(same_address)
            assert out == min(n for n, c in held.items() if c == loser)
            shares.discard(out)
            del held[out]
        assert len(shares) == len(held) <= most
