"""An upstream's reply: whether it answers the question, its lifetime, and cutting it to a size.

A reply is forwarded unchanged except for the id, so all of this works on the bytes.
"""

import struct
from enum import StrEnum
from typing import NamedTuple

from mesh_dnsproxy.message._codes import (
    AA,
    NOERROR,
    NS,
    NXDOMAIN,
    OPCODE,
    OPT,
    QR,
    RA,
    RCODE,
    SOA,
    TC,
)
from mesh_dnsproxy.message._names import name_end
from mesh_dnsproxy.message._query import HEADER_BYTES

_HEADER = struct.Struct("!6H")
_RECORD = struct.Struct("!HHIH")
_TTL = struct.Struct("!I")
_MINIMUM_AT = 16
"""Offset after the two names of an SOA of the TTL for negative answers (RFC 2308)."""


class Verdict(StrEnum):
    """The kinds of packets from an upstream."""

    GOOD = "good"
    TRUNCATED = "truncated"
    FAILED = "failed"
    """An error of this server, or a referral to others: another one may answer."""
    FOREIGN = "foreign"
    """No reply to this question: dropped, as any host may have sent it."""


class Record(NamedTuple):
    """The position of a record. section: 0 answer, 1 authority, 2 additional."""

    start: int
    kind: int
    ttl_at: int
    ttl: int
    data: int
    end: int
    section: int


def classify(reply: bytes, packet: bytes, question: bytes) -> Verdict:
    """Return the kind of a reply to `packet`, which asked that question."""
    if len(reply) < HEADER_BYTES or reply[:2] != packet[:2]:
        return Verdict.FOREIGN
    _, flags, questions, *counts = _HEADER.unpack_from(reply)
    if not flags & QR or flags & OPCODE:
        return Verdict.FOREIGN
    good = flags & RCODE in (NOERROR, NXDOMAIN)
    if questions == 0 and not good and not any(counts):
        return Verdict.FAILED  # a server that reads no more than the header
    end = HEADER_BYTES + len(question)
    asked = questions == 1 and reply[HEADER_BYTES:end].lower() == question.lower()
    # A reply that was cut may end anywhere.
    if not asked or not (flags & TC or _is_whole(reply, end)):
        return Verdict.FOREIGN
    if flags & TC:
        return Verdict.TRUNCATED
    lame = flags & RCODE == NOERROR and not flags & (AA | RA) and _refers(reply, end)
    return Verdict.GOOD if good and not lame else Verdict.FAILED


def _refers(reply: bytes, position: int) -> bool:
    """Return whether a reply names other servers in place of an answer.

    A server that is no resolver does that (RFC 1034, section 4.3.2). The C library asks the next
    one then, too.
    """
    found = records(reply, position)
    answers = any(each.section == 0 for each in found)
    authority = {each.kind for each in found if each.section == 1}
    return not answers and NS in authority and SOA not in authority


def _is_whole(reply: bytes, position: int) -> bool:
    try:
        records(reply, position)
    except ValueError:
        return False
    return True


def records(reply: bytes, position: int) -> tuple[Record, ...]:
    """Return all records after the question; raises ValueError if they don't fit the header."""
    _, _, _, *counts = _HEADER.unpack_from(reply)
    found = []
    for section, count in enumerate(counts):
        for _ in range(count):
            after_name = name_end(reply, position)
            data = after_name + _RECORD.size
            if data > len(reply):
                raise ValueError("a record without an end")
            kind, _, ttl, length = _RECORD.unpack_from(reply, after_name)
            end = data + length
            if end > len(reply):
                raise ValueError("a record without an end")
            found.append(Record(position, kind, after_name + 4, ttl, data, end, section))
            position = end
    if position != len(reply):
        raise ValueError("more than the header tells of")
    return tuple(found)


class Lifetime(NamedTuple):
    """How long a reply may be kept; None: not at all."""

    ttl_s: int | None
    negative: bool


def lifetime(reply: bytes, found: tuple[Record, ...]) -> Lifetime:
    """Return how long a good reply may be kept (RFC 1035; a negative one: RFC 2308)."""
    # An OPT record among the answers, where none may be, is no answer.
    answers = [record for record in found if record.section == 0 and record.kind != OPT]
    if answers and reply[3] & RCODE == NOERROR:
        return Lifetime(min(_seconds(each.ttl) for each in found if each.kind != OPT), False)
    for record in found:
        if record.section == 1 and record.kind == SOA:
            try:
                minimum_at = name_end(reply, name_end(reply, record.data)) + _MINIMUM_AT
                (minimum,) = _TTL.unpack_from(reply, minimum_at)
            except (ValueError, struct.error):
                return Lifetime(None, True)
            return Lifetime(min(_seconds(record.ttl), _seconds(minimum)), True)
    return Lifetime(None, True)


def _seconds(ttl: int) -> int:
    """Return a TTL; one with its first bit set means zero (RFC 2181, section 8)."""
    return ttl if ttl < 1 << 31 else 0


def cut(reply: bytes, question_end: int, limit: int) -> bytes:
    """Return the reply in at most `limit` bytes: whole records, TC set, the OPT record kept.

    limit: not less than the header and the question. Raises ValueError for a reply whose records
    cannot be distinguished.
    """
    if len(reply) <= limit:
        return reply
    return _cut_records(reply, records(reply, question_end), question_end, limit)


def _cut_records(reply: bytes, found: tuple[Record, ...], question_end: int, limit: int) -> bytes:
    opt = _opt(reply, found)
    if question_end + len(opt) > limit:
        opt = b""  # The client asks again over TCP, where it comes with all else.
    counts = [0, 0, 0]
    position = question_end
    for record in found:
        if record.kind == OPT or record.end + len(opt) > limit:
            break
        counts[record.section] += 1
        position = record.end
    identity, flags, questions, *_ = _HEADER.unpack_from(reply)
    counts[2] += bool(opt)
    header = _HEADER.pack(identity, flags | TC, questions, *counts)
    return b"".join((header, reply[HEADER_BYTES:position], opt))


def _opt(reply: bytes, found: tuple[Record, ...]) -> bytes:
    """Return the OPT record, empty if there is none.

    "When an OPT RR is included within any DNS message, it MUST be the only OPT RR in that message"
    (RFC 6891, section 6.1.1): the first counts. Its name "MUST be 0 (root domain)": one that is a
    pointer may lead to what is cut off.
    """
    for each in found:
        if each.kind == OPT:
            return b"\0" + reply[each.ttl_at - 4 : each.end]
    return b""
