"""Parses a query, as far as answering and forwarding need it.

Bounds are checked before anything is read, so any bytes have a result: a query, an error answer, or
None for a packet that is no query, which must never be answered (RFC 1035, RFC 6891, RFC 8906).
"""

import struct
from typing import NamedTuple

from mesh_dnsproxy.message._codes import (
    AXFR,
    BADVERS,
    DO,
    FORMERR,
    IXFR,
    NOTIMP,
    OPCODE,
    OPT,
    QR,
    REFUSED,
    SERVFAIL,
)
from mesh_dnsproxy.message._names import name_end

_HEADER = struct.Struct("!6H")
_TWO = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")
HEADER_BYTES = 12
MAX_QUERY_BYTES = 4096
"""Much more than a question with all options that there are; the bytes are kept while it waits."""
_LEAST_UDP_BYTES = 512
_MAX_NAME_BYTES = 255
_MAX_LABEL_BYTES = 63


class Edns(NamedTuple):
    """The content of an OPT record. udp_bytes: the largest answer its sender accepts over UDP."""

    udp_bytes: int
    version: int
    dnssec_ok: bool
    options: bytes


class Query(NamedTuple):
    """One question. question: name, type and class as asked; name: in lower case."""

    packet: bytes
    flags: int
    question: bytes
    name: bytes
    qtype: int
    qclass: int
    edns: Edns | None
    bare: bool
    """The query has no record beside its question, except perhaps an OPT record."""

    @property
    def plain(self) -> bool:
        """Whether the query is bare, and has no options."""
        return self.bare and (self.edns is None or not self.edns.options)

    def udp_limit(self, most: int) -> int:
        """Return the size of the largest answer that may be sent over UDP."""
        if self.edns is None:
            return _LEAST_UDP_BYTES
        return max(_LEAST_UDP_BYTES, min(self.edns.udp_bytes, most))


class Refusal(NamedTuple):
    """A query that is answered with an error code. question: empty if it could not be read."""

    packet: bytes
    flags: int
    rcode: int
    question: bytes
    edns: Edns | None


class _Refused(Exception):
    """The query is answered with this error code."""

    def __init__(self, rcode: int, question: bytes = b"", edns: Edns | None = None) -> None:
        super().__init__(rcode)
        self.rcode = rcode
        self.question = question
        self.edns = edns


def parse_query(packet: bytes) -> Query | Refusal | None:
    """Parse a packet; None if it is no query and gets no answer."""
    if len(packet) < HEADER_BYTES or packet[2] & QR >> 8:
        return None
    flags = packet[2] << 8 | packet[3]
    try:
        return _parse(packet, flags)
    except _Refused as refused:
        return Refusal(packet, flags, refused.rcode, refused.question, refused.edns)


def _parse(packet: bytes, flags: int) -> Query:
    _, _, questions, answers, authorities, additionals = _HEADER.unpack_from(packet)
    if flags & OPCODE:
        raise _Refused(NOTIMP)
    if questions != 1:
        # Istio answers no question at all with SERVFAIL; several are an error since RFC 9619.
        raise _Refused(FORMERR if questions else SERVFAIL)
    name_ends = _plain_name_end(packet)
    if name_ends + 4 > len(packet):
        raise _Refused(FORMERR)
    end = name_ends + 4
    name = packet[HEADER_BYTES:name_ends].lower()
    qtype, qclass = _TWO.unpack_from(packet, name_ends)
    question = packet[HEADER_BYTES:end]
    edns = None
    if answers or authorities or additionals or len(packet) > end:
        try:
            edns = _edns(packet, end, answers + authorities, additionals)
        except ValueError:
            raise _Refused(FORMERR, question) from None
        if edns is not None and edns.version:
            raise _Refused(BADVERS, question, edns)
    if qtype == OPT:
        raise _Refused(FORMERR, question, edns)
    if qtype in (AXFR, IXFR):
        raise _Refused(REFUSED, question, edns)
    bare = not answers and not authorities and additionals == (edns is not None)
    return Query(packet, flags, question, name, qtype, qclass, edns, bare)


def _plain_name_end(packet: bytes) -> int:
    """Return where the question's name ends; a pointer in it would be an error."""
    position = HEADER_BYTES
    end = len(packet)
    while position < end and (length := packet[position]):
        if length > _MAX_LABEL_BYTES:
            raise _Refused(FORMERR)
        position += 1 + length
    if position + 1 - HEADER_BYTES > _MAX_NAME_BYTES:
        raise _Refused(FORMERR)
    return position + 1


def _edns(packet: bytes, position: int, before: int, additionals: int) -> Edns | None:
    """Return the OPT record after the question; raises ValueError if a record is malformed."""
    found: Edns | None = None
    for number in range(before + additionals):
        after_name = name_end(packet, position)
        try:
            kind, size, ttl, length = _RECORD.unpack_from(packet, after_name)
        except struct.error:
            raise ValueError("a record without an end") from None
        data = after_name + _RECORD.size
        if data + length > len(packet):
            raise ValueError("a record without an end")
        if kind == OPT:
            if found is not None or number < before or after_name != position + 1:
                raise ValueError("an OPT record where none may be")
            options = packet[data : data + length]
            _check_options(options)
            found = Edns(size, ttl >> 16 & 0xFF, bool(ttl & DO), options)
        position = data + length
    if position != len(packet):
        raise ValueError("more than the header tells of")
    return found


def _check_options(options: bytes) -> None:
    position = 0
    while position < len(options):
        if position + 4 > len(options):
            raise ValueError("an option without an end")
        position += 4 + int.from_bytes(options[position + 2 : position + 4], "big")
    if position != len(options):
        raise ValueError("an option without an end")


def option_codes(options: bytes) -> frozenset[int]:
    """Return the codes of the options, which have to be well-formed."""
    codes = set()
    position = 0
    while position < len(options):
        code, length = _TWO.unpack_from(options, position)
        codes.add(code)
        position += 4 + length
    return frozenset(codes)
