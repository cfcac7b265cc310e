"""Two resolvers of names outside the mesh, either of which may die or lie.

Each is asked through the agents' forwarding: resolv.conf names both, in the run's own mount
namespace.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

_TTL_S = 5


class Mood(StrEnum):
    """What a resolver does with a question."""

    WELL = "well"
    DEAD = "dead"
    LYING = "lying"


class Resolver(asyncio.DatagramProtocol):
    """Answers every name below one suffix with the same address; lies about it, or says nothing."""

    def __init__(self, host: str, *, suffix: str, address: str) -> None:
        self.host = host
        self.mood = Mood.WELL
        self.asked = 0
        self._suffix = suffix
        self._address = address
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # What Python 3.11 gives is one by its methods, not by its class.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.asked += 1
        if self._transport is None or self.mood is Mood.DEAD:
            return
        answers = self.lies(data) if self.mood is Mood.LYING else [self.answer(data)]
        for each in answers:
            self._transport.sendto(each, addr)

    def answer(self, data: bytes) -> bytes:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        question = query.question[0]
        name = question.name.to_text().lower()
        if not name.endswith(f"{self._suffix}."):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == dns.rdatatype.A:
            answer.answer.append(
                dns.rrset.from_text(question.name, _TTL_S, "IN", "A", self._address)
            )
        return answer.to_wire()

    def lies(self, data: bytes) -> Sequence[bytes]:
        """Answers not to be believed: another id, another question, no message, half a message."""
        query = dns.message.from_wire(data)
        wrong = dns.message.make_response(query)
        wrong.answer.append(
            dns.rrset.from_text(query.question[0].name, _TTL_S, "IN", "A", "203.0.113.66")
        )
        wrong.id = query.id ^ 0x5555
        another = dns.message.make_response(dns.message.make_query(f"other.{self._suffix}", "A"))
        another.id = query.id
        another.answer.append(
            dns.rrset.from_text(f"other.{self._suffix}.", _TTL_S, "IN", "A", "203.0.113.66")
        )
        good = self.answer(data)
        return [wrong.to_wire(), another.to_wire(), good[: len(good) // 2], b"\0", data]


@asynccontextmanager
async def resolvers(
    hosts: Sequence[str], *, suffix: str, address: str
) -> AsyncIterator[dict[str, Resolver]]:
    """Answer at port 53 of each of these addresses."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        found = {}
        for host in hosts:
            resolver = Resolver(host, suffix=suffix, address=address)
            transport, _ = await loop.create_datagram_endpoint(
                partial(_same, resolver), local_addr=(host, 53), family=socket.AF_INET
            )
            stack.callback(transport.close)
            found[host] = resolver
        yield found


def _same(resolver: Resolver) -> Resolver:
    return resolver


def resolv_conf(hosts: Sequence[str], directory: Path) -> Path:
    """Write a resolv.conf that names these resolvers; returns it."""
    file = directory / "resolv.conf"
    file.write_text("".join(f"nameserver {host}\n" for host in hosts))
    return file
