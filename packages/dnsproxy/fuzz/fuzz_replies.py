"""Any packet as an upstream's reply: judged, kept for a time, cut to size, without an exception."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mesh_dnsproxy.message._names import to_wire
from mesh_dnsproxy.message._reply import Verdict, classify, cut, lifetime, records

QUESTION = to_wire("www.example.com") + b"\0\1\0\1"
PACKET = struct.pack("!6H", 0x1234, 0x0100, 1, 0, 0, 0) + QUESTION
_END = len(PACKET)
_OPT = 41


def check(data: bytes) -> None:
    """A good reply has whole records, a lifetime and a form of any size."""
    verdict = classify(data, PACKET, QUESTION)
    if verdict is not Verdict.GOOD:
        return
    found = records(data, _END)
    life = lifetime(data, found)
    assert life.ttl_s is None or 0 <= life.ttl_s < 1 << 31
    for limit in (512, 1232, 65535):
        shorter = cut(data, _END, limit)
        assert len(shorter) <= limit
        assert shorter[:2] == data[:2]
        left = records(shorter, _END)
        assert shorter is data or sum(each.kind == _OPT for each in left) <= 1
        assert len(data) <= limit or shorter[2] & 2


def originals() -> Iterator[bytes]:
    """Answers, a chain of aliases, a negative answer, a truncated one, a failure."""
    address = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + b"\1\2\3\4"
    alias = b"\xc0\x0c" + struct.pack("!HHIH", 5, 1, 60, 6) + b"\3web\xc0\x10"
    soa_data = b"\2ns\xc0\x10\4host\xc0\x10" + struct.pack("!5I", 1, 2, 3, 4, 300)
    soa = b"\xc0\x10" + struct.pack("!HHIH", 6, 1, 900, len(soa_data)) + soa_data
    opt = struct.pack("!BHHIH", 0, 41, 1232, 0, 0)

    def reply(flags: int, counts: tuple[int, int, int], *parts: bytes) -> bytes:
        return struct.pack("!6H", 0x1234, flags, 1, *counts) + QUESTION + b"".join(parts)

    yield reply(0x8180, (1, 0, 1), address, opt)
    yield reply(0x8180, (2, 0, 0), alias, address)
    yield reply(0x8180, (60, 0, 1), address * 60, opt)
    yield reply(0x8183, (0, 1, 0), soa)
    yield reply(0x8380, (0, 0, 0))
    yield reply(0x8182, (0, 0, 0))
