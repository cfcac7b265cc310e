"""Any bytes as an answer of a server, and as addresses and networks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address

import h11

from mesh_address_guard import THIS_MACHINE, AddressGuard, FetchFailed, NotANetwork, parse_networks
from mesh_address_guard._bounded_fetch import _Reading, _request, _target

_MOST = 1000
_GUARD = AddressGuard(blocked=THIS_MACHINE)


def check(data: bytes) -> None:
    """An answer is within its bound or refused; what is no address is blocked."""
    kind, content = data[:1], data[1:]
    if kind == b"h":
        with suppress(FetchFailed):
            assert len(asyncio.run(_read(content))) <= _MOST
        return
    text = content.decode("utf-8", "surrogateescape")
    with suppress(NotANetwork):
        AddressGuard(allowed=parse_networks(text))
    if _GUARD.blocks(text) is None:
        assert not ip_address(text.partition("%")[0]).is_loopback


async def _read(content: bytes) -> bytes:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    protocol: h11.Connection = _request(_target("http://a.example/"), {}, None).protocol
    return (await _Reading(reader, protocol, _MOST).answer()).body


def originals() -> Iterator[bytes]:
    """Good answers, addresses and networks."""
    yield b"hHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    yield b"hHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield b"hHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n"
    yield b"hHTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Encoding: gzip\r\n\r\n"
    yield from (b"a10.0.0.0/8, ::1", b"a::ffff:127.0.0.1", b"a64:ff9b:1::7f00:1", b"afe80::1%lo")
