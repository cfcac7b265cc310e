"""Answer DNS queries from a dictionary in as little Python as can be: what a loop costs by itself.

    python bare_loop.py KIND PORT NAMES

KIND: `protocol` (a datagram protocol of uvloop), `recvfrom` or `recvfrom_into` (a reader callback
that drains the socket). NAMES: how many names `service-N.example.com` there are. The benchmark
compares the server with these, on the same machine in the same minute.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import cast

import uvloop

Answers = dict[bytes, bytes]


def answers(count: int) -> Answers:
    """What follows the id in a query for each name, and what follows it in the answer."""
    packets = {}
    for number in range(count):
        name = b"".join(
            bytes((len(label),)) + label
            for label in (b"service-%d" % number, b"example", b"com", b"")
        )
        for kind, data in ((1, socket.inet_aton("10.0.0.1")), (28, bytes(16))):
            question = name + kind.to_bytes(2, "big") + b"\0\1"
            record = b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\0\1\0\0\0\x1e"
            packets[b"\1\0\0\1\0\0\0\0\0\0" + question] = (
                b"\x85\x80\0\1\0\1\0\0\0\0" + question + record + bytes((0, len(data))) + data
            )
    return packets


class Protocol(asyncio.DatagramProtocol):
    def __init__(self, table: Answers) -> None:
        self._table = table

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._send = cast("asyncio.DatagramTransport", transport).sendto

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self._table.get(data[2:])
        if answer is not None:
            self._send(data[:2] + answer, addr)


def drain(sock: socket.socket, table: Answers) -> None:
    receive, send = sock.recvfrom, sock.sendto
    try:
        for _ in range(64):
            data, addr = receive(4096)
            answer = table.get(data[2:])
            if answer is not None:
                send(data[:2] + answer, addr)
    except BlockingIOError:
        pass


def drain_into(sock: socket.socket, table: Answers, buffer: bytearray, view: memoryview) -> None:
    receive, send = sock.recvfrom_into, sock.sendto
    try:
        for _ in range(64):
            size, addr = receive(buffer)
            answer = table.get(bytes(view[2:size]))
            if answer is not None:
                send(view[:2].tobytes() + answer, addr)
    except BlockingIOError:
        pass


async def main(kind: str, port: int, count: int) -> None:
    table = answers(count)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.setblocking(False)
    sock.bind(("127.0.0.1", port))
    loop = asyncio.get_running_loop()
    match kind:
        case "protocol":
            await loop.create_datagram_endpoint(lambda: Protocol(table), sock=sock)
        case "recvfrom":
            loop.add_reader(sock, drain, sock, table)
        case "recvfrom_into":
            buffer = bytearray(4096)
            loop.add_reader(sock, drain_into, sock, table, buffer, memoryview(buffer))
        case _:
            raise SystemExit(f"no such kind of loop: {kind}")
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
