"""Any packet as a query, over UDP and TCP: it has an outcome, and an answer that fits it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mesh_dnsproxy import NameEntry, Port
from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.message._names import to_wire
from mesh_dnsproxy.table._compiled import Scope, compile_table

ENTRIES = {
    "known.example": NameEntry(("10.0.0.1", "2001:db8::1"), ports=(Port(443, "https", "HTTPS"),)),
    "*.wild.example": NameEntry(("10.0.0.2",)),
    "web.ns.svc.cluster.local": NameEntry(("10.0.0.3",), "Kubernetes", "web", "ns"),
    "many.example": NameEntry(tuple(f"10.1.{n >> 8}.{n & 255}" for n in range(300))),
}


def _answerer() -> Answerer:
    built = Answerer(Counts())
    scope = Scope.from_texts(
        domain="svc.cluster.local", namespace="ns", search="ns.svc.cluster.local"
    )
    building = compile_table(ENTRIES.items(), scope)
    while True:
        try:
            next(building)
        except StopIteration as done:
            built.use_table(done.value)
            return built


ANSWERER = _answerer()


def check(data: bytes) -> None:
    """Queries are answered with their id or forwarded, all else is left alone."""
    if not data:
        return
    over_tcp, packet = bool(data[0] & 1), data[1:]
    outcome = ANSWERER.answer(packet, over_tcp=over_tcp)
    is_query = len(packet) >= 12 and not packet[2] & 0x80
    assert (outcome is not None) == is_query
    assert ANSWERER._counts.internal_errors == 0
    if outcome is None or isinstance(outcome, Forward):
        return
    assert outcome[:2] == packet[:2]
    assert outcome[2] & 0x80
    assert len(outcome) <= (65535 if over_tcp else 4096)


def originals() -> Iterator[bytes]:
    """Queries of each kind, with and without EDNS, and a record where none may be."""
    for name in ("known.example", "a.wild.example", "web", "many.example", "1.0.0.10.in-addr.arpa"):
        for kind in (1, 12, 28, 33, 65, 255):
            question = to_wire(name) + struct.pack("!HH", kind, 1)
            opt = struct.pack("!BHHIHHH8s", 0, 41, 1232, 0x8000, 12, 10, 8, b"12345678")
            yield b"\0" + struct.pack("!6H", 1, 0x0100, 1, 0, 0, 0) + question
            yield b"\1" + struct.pack("!6H", 1, 0x0110, 1, 0, 0, 1) + question + opt
    question = to_wire("known.example") + b"\0\1\0\1"
    record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + b"\1\2\3\4"
    yield b"\0" + struct.pack("!6H", 1, 0x0100, 1, 1, 0, 0) + question + record
