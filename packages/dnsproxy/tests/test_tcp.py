"""Connections: many, idle, slow, greedy and broken ones; UDP does not notice."""

import asyncio
import socket
from contextlib import AsyncExitStack

import dns.message
import dns.rcode
import pytest

from dns_peers import Over, TcpClient, answering, ask, ask_tcp, reply_to, running, upstream
from mesh_dnsproxy import Dropped, NameEntry, TcpConfig
from mesh_testkit import until

ENTRIES = {"known.example": NameEntry(("10.0.0.1",))}
KNOWN = dns.message.make_query("known.example.", "A").to_wire()


def good(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
    reply = reply_to(packet, "10.0.0.9")
    return [(0, len(reply).to_bytes(2, "big") + reply if over == "tcp" else reply)]


async def test_queries_of_one_connection_are_answered_as_answers_come() -> None:
    async with (
        upstream(good, holding=True) as up,
        running(answering(up.address), ENTRIES) as (_, address),
        TcpClient(address) as client,
    ):
        queries = [
            dns.message.make_query(f"name.{n}.example." if n % 2 else "known.example.", "A")
            for n in range(50)
        ]
        for query in queries:
            client.send(query.to_wire())
        answers = [dns.message.from_wire(await client.receive()) for _ in range(25)]
        assert {str(each.question[0].name) for each in answers} == {"known.example."}
        up.let_go()
        answers += [dns.message.from_wire(await client.receive()) for _ in range(25)]
        assert {each.id for each in answers} == {each.id for each in queries}
        assert all(each.answer for each in answers)


async def test_no_more_is_read_from_who_has_asked_too_much_at_once() -> None:
    config = answering(tcp=TcpConfig(max_pipelined=4), cache=None)
    async with upstream(good, holding=True) as up:
        settings = config._replace(upstreams=(up.address,))
        async with running(settings, ENTRIES) as (_, address), TcpClient(address) as client:
            for n in range(20):
                client.send(dns.message.make_query(f"name.{n}.example.", "A").to_wire())
            await until(lambda: len(up.queries) == 4, what="four questions upstream")
            await ask(address, "known.example.")
            assert len(up.queries) == 4
            up.let_go()
            answers = [dns.message.from_wire(await client.receive()) for _ in range(20)]
            assert all(each.answer for each in answers)


async def test_a_query_may_come_in_pieces_and_several_at_once() -> None:
    frame = len(KNOWN).to_bytes(2, "big") + KNOWN
    async with running(answering(), ENTRIES) as (_, address), TcpClient(address) as client:
        for byte in frame:
            client.writer.write(bytes((byte,)))
            await client.writer.drain()
        assert dns.message.from_wire(await client.receive()).answer
        client.writer.write(frame * 3 + frame[:7])
        for _ in range(3):
            assert dns.message.from_wire(await client.receive()).answer
        client.writer.write(frame[7:])
        assert dns.message.from_wire(await client.receive()).answer


async def test_who_has_said_all_still_gets_the_answers() -> None:
    async with (
        upstream(good, holding=True) as up,
        running(answering(up.address), ENTRIES) as (_, address),
        TcpClient(address) as client,
    ):
        client.send(dns.message.make_query("name.example.", "A").to_wire())
        client.writer.write_eof()
        await until(lambda: up.queries, what="the question upstream")
        await ask(address, "known.example.")  # by then the end has been read, too
        up.let_go()
        assert dns.message.from_wire(await client.receive()).answer
        await client.wait_closed()


@pytest.mark.parametrize("said", [b"", b"\0", b"\0\x30half a query"])
async def test_who_asks_nothing_whole_is_closed_after_a_while(said: bytes) -> None:
    config = answering(tcp=TcpConfig(idle_timeout_s=0.2))
    async with running(config, ENTRIES) as (server, address), TcpClient(address) as client:
        client.writer.write(said)
        await client.wait_closed()
        assert server.counts.tcp_closed_idle == 1

        async def answered() -> bool:
            """The limit holds for this connection, too, so that a slow one is opened again."""
            try:
                return bool((await ask_tcp(address, "known.example.")).answer)
            except (ConnectionError, asyncio.IncompleteReadError):
                return False

        await until(answered, what="an answer on another connection")


async def test_a_byte_now_and_then_does_not_keep_a_connection() -> None:
    config = answering(tcp=TcpConfig(idle_timeout_s=0.5))
    async with running(config, ENTRIES) as (_, address), TcpClient(address) as client:

        async def drip() -> None:
            while True:
                client.writer.write(b"\1")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        await client.wait_closed()
        dripping.cancel()


async def test_two_hundred_idle_connections_leave_room_for_who_asks_and_for_udp() -> None:
    config = answering(tcp=TcpConfig(max_connections=50, idle_timeout_s=600.0))
    async with running(config, ENTRIES) as (server, address), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(TcpClient(address)) for _ in range(200)]
        await until(
            lambda: server.counts.tcp_closed_idle == 150,
            what="the idlest being closed",
            seen=lambda: server.counts.tcp_closed_idle,
        )
        assert server.counts.tcp_connections == 50
        for _ in range(20):
            assert (await ask(address, "known.example.")).answer
        assert (await ask_tcp(address, "known.example.")).answer
        clients[-1].send(KNOWN)
        assert dns.message.from_wire(await clients[-1].receive()).answer
        await clients[0].wait_closed()


async def test_if_all_connections_wait_the_one_that_waits_for_longest_is_closed() -> None:
    config = answering(tcp=TcpConfig(max_connections=2))
    async with upstream(good, holding=True) as up:
        settings = config._replace(upstreams=(up.address,))
        async with running(settings, ENTRIES) as (server, address), AsyncExitStack() as stack:
            busy = [await stack.enter_async_context(TcpClient(address)) for _ in range(2)]
            for number, client in enumerate(busy):
                client.send(dns.message.make_query(f"name.{number}.example.", "A").to_wire())
                await up.wait_asked(number + 1)
            late = await stack.enter_async_context(TcpClient(address))
            late.send(KNOWN)
            assert dns.message.from_wire(await late.receive()).answer
            await busy[0].wait_closed()
            assert server.counts.gave_way == 1
            up.let_go()
            assert dns.message.from_wire(await busy[1].receive()).answer


async def test_who_does_not_take_answers_is_read_no_more_and_closed() -> None:
    big = {"big.example": NameEntry(tuple(f"10.{n >> 8}.{n & 255}.1" for n in range(3000)))}
    config = answering(tcp=TcpConfig(idle_timeout_s=0.5))
    query = dns.message.make_query("big.example.", "A").to_wire()
    async with running(config, big) as (server, address):
        with socket.create_connection(address) as greedy:
            greedy.setblocking(False)
            frame = len(query).to_bytes(2, "big") + query
            sent = 0
            try:
                while sent < 50_000_000:
                    sent += greedy.send(frame * 1000)
                    await asyncio.sleep(0)
            except OSError:
                pass
            await until(lambda: server.counts.tcp_closed_idle == 1, what="it being closed")
        assert (await ask(address, "big.example.")).flags


async def test_who_says_that_a_query_is_longer_than_any_is_closed_before_it_is_read() -> None:
    async with running(answering(), ENTRIES) as (server, address), TcpClient(address) as client:
        client.writer.write(b"\xff\xff" + KNOWN)
        await client.wait_closed()
        assert server.counts.dropped[Dropped.TOO_LARGE] == 1


async def test_who_does_not_take_the_replies_that_it_waits_for_is_closed() -> None:
    """Replies of 64 kB to queries that were sent at once, from an upstream."""
    first = dns.message.make_query("name.00.example.", "A", use_edns=-1).to_wire()
    whole = reply_to(first, *(f"10.{n >> 8}.{n & 255}.1" for n in range(4000)))

    def large(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        del over
        reply = packet[:2] + whole[2:12] + packet[12:] + whole[len(packet) :]
        return [(0, len(reply).to_bytes(2, "big") + reply)]

    async with (
        upstream(large, holding=True) as up,
        running(answering(up.address, cache=None), ENTRIES) as (server, address),
    ):
        with socket.create_connection(address) as greedy:
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for number in range(60):
                query = dns.message.make_query(f"name.{number:02}.example.", "A").to_wire()
                greedy.sendall(len(query).to_bytes(2, "big") + query)
            await until(lambda: len(up.queries) == 60, what="all questions upstream")
            up.let_go()
            await until(lambda: server.counts.tcp_connections == 0, what="it being closed")
            assert server.counts.dropped[Dropped.NOT_SENT] == 1


async def test_an_answer_in_place_of_a_query_ends_the_connection() -> None:
    async with running(answering(), ENTRIES) as (_, address), TcpClient(address) as client:
        client.send(KNOWN[:2] + b"\x81\x80" + KNOWN[4:])
        await client.wait_closed()
