"""Asks a server over TCP: a connection for each question, as many servers answer in sequence."""

import asyncio
import os
import socket

from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.forwarding._udp import numeric_address
from mesh_dnsproxy.message._reply import Verdict, classify

_LENGTH_BYTES = 2
_MOST_FOREIGN_REPLIES = 4


class NoReply(Exception):
    """A server ended the connection, or answered other questions."""


async def ask_over_tcp(server: Upstream, packet: bytes, question: bytes) -> tuple[Verdict, bytes]:
    """Ask and return the reply, however long it takes; raises OSError or `NoReply`."""
    family, kind, protocol, _, address = numeric_address(server, socket.SOCK_STREAM)
    sent = os.urandom(2) + packet[2:]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, address)
        await loop.sock_sendall(sock, len(sent).to_bytes(_LENGTH_BYTES, "big") + sent)
        for _ in range(_MOST_FOREIGN_REPLIES):
            length = int.from_bytes(await _read(loop, sock, _LENGTH_BYTES), "big")
            reply = await _read(loop, sock, length)
            verdict = classify(reply, sent, question)
            if verdict is not Verdict.FOREIGN:
                return verdict, reply
    finally:
        sock.close()
    raise NoReply(f"{server} answers another question")


async def _read(loop: asyncio.AbstractEventLoop, sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = await loop.sock_recv(sock, size - len(parts))
        if not part:
            raise NoReply("the connection ended in the middle of a reply")
        parts += part
    return bytes(parts)
