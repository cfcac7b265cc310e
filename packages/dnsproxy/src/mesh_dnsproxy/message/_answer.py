"""Makes the answers of this server from encoded records.

Most functions return the part after the id, which then serves every query with the same question.
"""

import struct
from collections.abc import Sequence

from mesh_dnsproxy.message._codes import AA, BADVERS, CD, DO, OPCODE, QR, RA, RD, TC
from mesh_dnsproxy.message._query import HEADER_BYTES, Edns, Query, Refusal

_AFTER_ID = struct.Struct("!5H")
_OPT = struct.Struct("!BHHBBHH")
OUR_UDP_BYTES = 1232
"""The size this server accepts over UDP: one that is never fragmented (DNS flag day 2020)."""
QUESTION_POINTER = b"\xc0\x0c"
"""A pointer to the name in the question."""
MAX_TCP_BYTES = 65535


def answer_tail(
    query: Query,
    answers: Sequence[bytes],
    limit: int,
    *,
    additionals: Sequence[bytes] = (),
) -> bytes:
    """Return an authoritative answer of at most `limit` bytes, without the id.

    Records that don't fit are left out and TC is set; additional records may be left out as they
    are not needed (RFC 2181, section 9).
    """
    opt = opt_record(query.edns, 0)
    size = HEADER_BYTES + len(query.question) + len(opt)
    kept, size = _fitting(answers, size, limit)
    extra, _ = _fitting(additionals, size, limit)
    flags = QR | AA | RA | (query.flags & (RD | CD))
    if len(kept) < len(answers):
        flags |= TC
        extra = ()
    header = _AFTER_ID.pack(flags, 1, len(kept), 0, len(extra) + bool(opt))
    return b"".join((header, query.question, *kept, *extra, opt))


def _fitting(records: Sequence[bytes], size: int, limit: int) -> tuple[Sequence[bytes], int]:
    whole = size + sum(map(len, records))
    if whole <= limit:
        return records, whole
    for count, record in enumerate(records):
        if size + len(record) > limit:
            return records[:count], size
        size += len(record)
    return records, size


def error_answer(refused: Query | Refusal, rcode: int) -> bytes:
    """Return an answer with only a code, and the question if that could be read."""
    opt = opt_record(refused.edns, rcode >> 4)
    flags = QR | RA | (refused.flags & (OPCODE | RD | CD)) | (rcode & 0xF)
    header = _AFTER_ID.pack(flags, bool(refused.question), 0, 0, bool(opt))
    return b"".join((refused.packet[:2], header, refused.question, opt))


def refusal_answer(refusal: Refusal) -> bytes:
    """Return the answer to a query that is refused."""
    return error_answer(refusal, refusal.rcode)


def truncated_answer(query: Query) -> bytes:
    """Return an answer without records, after which the client asks over TCP."""
    answer = bytearray(error_answer(query, 0))
    answer[2] |= TC >> 8
    return bytes(answer)


def bare_failure(packet: bytes, rcode: int) -> bytes:
    """Return an answer to a packet of which only the header was read."""
    flags = int.from_bytes(packet[2:4], "big")
    return packet[:2] + _AFTER_ID.pack(QR | RA | (flags & (OPCODE | RD)) | rcode, 0, 0, 0, 0)


def opt_record(edns: Edns | None, extended: int) -> bytes:
    """Return our OPT record if there is to be one (RFC 6891): without options, DO as asked."""
    if edns is None:
        return b""
    flags = DO if edns.dnssec_ok and extended != BADVERS >> 4 else 0
    return _OPT.pack(0, 41, OUR_UDP_BYTES, extended, 0, flags, 0)
