"""An upstream resolver whose replies the test decides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from mesh_dnsproxy import Upstream
from mesh_testkit import find_free_port, until

Over = Literal["udp", "tcp"]
"""The transport of a query."""
Behaviour = Callable[[bytes, Over], list[tuple[float, bytes]]]
"""Returns the replies to a query that came over a transport, each after so many seconds."""


def reply_to(
    packet: bytes,
    *addresses: str,
    ttl: int = 60,
    rcode: int = 0,
    soa: bool = False,
    truncated: bool = False,
) -> bytes:
    """A well-behaved reply: these addresses, or a code."""
    query = dns.message.from_wire(packet)
    reply = dns.message.make_response(query, recursion_available=True)
    reply.set_rcode(dns.rcode.Rcode(rcode))
    (question,) = query.question
    if addresses:
        kind = "AAAA" if ":" in addresses[0] else "A"
        reply.answer.append(dns.rrset.from_text(question.name, ttl, "IN", kind, *addresses))
    if soa:
        data = f"ns.example. admin.example. 1 3600 600 86400 {ttl}"
        reply.authority.append(dns.rrset.from_text("example.", ttl, "IN", "SOA", data))
    if truncated:
        reply.flags |= dns.flags.TC
    return reply.to_wire(max_size=65535)


@dataclass
class FakeUpstream:
    """The queries that an upstream got, and its behaviour."""

    address: Upstream
    behaviour: Behaviour
    queries: list[bytes] = field(default_factory=list)
    sources: list[tuple[str, int]] = field(default_factory=list)
    over_tcp: int = 0
    free: asyncio.Event = field(default_factory=asyncio.Event)
    held: list[Callable[[], None]] = field(default_factory=list)

    def let_go(self) -> None:
        """Send what was held back, and from now on everything at once."""
        self.free.set()
        for send in self.held:
            send()
        self.held.clear()

    async def wait_asked(self, count: int) -> None:
        """Wait for so many queries."""
        await until(lambda: len(self.queries) >= count, what=f"{count} queries upstream")

    @property
    def names(self) -> list[str]:
        return [str(dns.message.from_wire(each).question[0].name) for each in self.queries]


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, fake: FakeUpstream) -> None:
        self._fake = fake
        self._timers: list[asyncio.TimerHandle] = []
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        for timer in self._timers:
            timer.cancel()
        self.closed.set()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._fake.queries.append(data)
        self._fake.sources.append(addr)
        loop = asyncio.get_running_loop()
        for delay_s, reply in self._fake.behaviour(data, "udp"):
            if delay_s:
                self._timers.append(loop.call_later(delay_s, self._send, reply, addr))
            else:
                self._send(reply, addr)

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        if self._fake.free.is_set():
            self._transport.sendto(reply, addr)
        else:
            self._fake.held.append(partial(self._transport.sendto, reply, addr))


@asynccontextmanager
async def upstream(
    behaviour: Behaviour, *, port: int | None = None, holding: bool = False
) -> AsyncIterator[FakeUpstream]:
    """Run one on UDP and TCP; afterwards no socket listens there.

    holding: it sends nothing until it is let go.
    """
    loop = asyncio.get_running_loop()
    # Not one that the kernel chooses for TCP: another process may have it for UDP.
    chosen = find_free_port() if port is None else port
    with socket.create_server(("127.0.0.1", chosen)) as listener:
        fake = FakeUpstream(Upstream("127.0.0.1", chosen), behaviour)
        if not holding:
            fake.let_go()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    length = int.from_bytes(await reader.readexactly(2), "big")
                    packet = await reader.readexactly(length)
                    fake.queries.append(packet)
                    fake.over_tcp += 1
                    for delay_s, reply in fake.behaviour(packet, "tcp"):
                        await asyncio.sleep(delay_s)
                        await fake.free.wait()
                        writer.write(reply)
                    if writer.is_closing():
                        break
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        transport, udp = await loop.create_datagram_endpoint(
            lambda: _Udp(fake), local_addr=("127.0.0.1", chosen)
        )
        server = await asyncio.start_server(serve, sock=listener)
        try:
            yield fake
        finally:
            transport.close()
            await udp.closed.wait()
            server.close()
            await server.wait_closed()
