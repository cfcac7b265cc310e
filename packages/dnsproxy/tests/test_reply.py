"""Replies of upstreams: which count, and cutting them to a size."""

import struct

import dns.exception
import dns.flags
import dns.message
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dns_peers import reply_to
from mesh_dnsproxy.message._query import Query, parse_query
from mesh_dnsproxy.message._reply import Verdict, classify, cut, lifetime, records

PACKET = dns.message.make_query("a.example.", "A", use_edns=0, id=0x1234).to_wire()
QUERY = parse_query(PACKET)
assert isinstance(QUERY, Query)
QUESTION = QUERY.question
END = 12 + len(QUESTION)
GOOD = reply_to(PACKET, "10.0.0.1", "10.0.0.2")


REPLIES = [
    ("good", GOOD, Verdict.GOOD),
    ("no such name", reply_to(PACKET, rcode=3, soa=True), Verdict.GOOD),
    ("the question in other letters", GOOD.replace(b"example", b"eXaMple"), Verdict.GOOD),
    ("refused", reply_to(PACKET, rcode=5), Verdict.FAILED),
    ("failed", reply_to(PACKET, rcode=2), Verdict.FAILED),
    ("a header with an error", PACKET[:2] + b"\x81\x01" + bytes(8), Verdict.FAILED),
    ("cut", reply_to(PACKET, truncated=True), Verdict.TRUNCATED),
    ("cut in a record", reply_to(PACKET, "10.0.0.1", truncated=True)[:-14], Verdict.TRUNCATED),
    ("another id", b"\0\0" + GOOD[2:], Verdict.FOREIGN),
    ("another question", GOOD.replace(b"example", b"exomple"), Verdict.FOREIGN),
    ("a query", PACKET, Verdict.FOREIGN),
    ("another opcode", GOOD[:2] + b"\xa0" + GOOD[3:], Verdict.FOREIGN),
    ("a header without an error", PACKET[:2] + b"\x81\x00" + bytes(8), Verdict.FOREIGN),
    ("half", GOOD[:-20], Verdict.FOREIGN),
    ("more", GOOD + b"x", Verdict.FOREIGN),
    ("nothing", b"", Verdict.FOREIGN),
    ("garbage", PACKET[:2] + b"\xff" * 40, Verdict.FOREIGN),
]


@pytest.mark.parametrize(
    ("what", "reply", "verdict"),
    REPLIES,
    ids=[case[0] for case in REPLIES],
)
def test_only_a_reply_to_the_question_counts(what: str, reply: bytes, verdict: Verdict) -> None:
    del what
    assert classify(reply, PACKET, QUESTION) is verdict


@given(st.binary(max_size=60), st.integers(0, len(GOOD)), st.integers(0, 30))
def test_any_bytes_are_judged_and_good_ones_can_be_read(junk: bytes, at: int, drop: int) -> None:
    reply = GOOD[:at] + junk + GOOD[at + drop :]
    verdict = classify(reply, PACKET, QUESTION)
    if verdict in (Verdict.GOOD, Verdict.FAILED) and reply[4:6] == b"\0\1":
        found = records(reply, END)
        lifetime(reply, found)
        for limit in (512, 40, 100):
            assert len(cut(reply, END, limit)) <= limit


def test_a_reply_with_nothing_but_an_opt_record_among_its_answers_has_none() -> None:
    opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
    reply = PACKET[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + QUESTION + opt
    assert classify(reply, PACKET, QUESTION) is Verdict.GOOD
    assert lifetime(reply, records(reply, END)) == (None, True)


@given(count=st.integers(1, 120), limit=st.integers(512, 2500), edns=st.booleans())
def test_a_reply_is_cut_between_records_and_keeps_its_edns(
    count: int, limit: int, *, edns: bool
) -> None:
    packet = dns.message.make_query("a.example.", "A", use_edns=0 if edns else -1).to_wire()
    whole = reply_to(packet, *(f"10.0.0.{n}" for n in range(count)))
    short = cut(whole, END, limit)
    assert len(short) <= limit
    if len(whole) <= limit:
        assert short == whole
        return
    message = dns.message.from_wire(short)
    assert message.flags & dns.flags.TC
    assert (message.edns == 0) == edns
    assert len(short) > limit - 16
    assert not message.answer or {each.address for each in message.answer[0]} <= {
        f"10.0.0.{n}" for n in range(count)
    }


def opt_record(*, name: bytes = b"\0", size: int = 1232, options: bytes = b"") -> bytes:
    return name + struct.pack("!HHIH", dns.rdatatype.OPT, size, 0, len(options)) + options


def reply_with(*after: bytes, counts: tuple[int, int, int]) -> bytes:
    return PACKET[:2] + struct.pack("!5H", 0x8180, 1, *counts) + QUESTION + b"".join(after)


ADDRESSES = 60
ADDRESS = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + b"\x0a\0\0\1"


@pytest.mark.parametrize(
    "reply",
    [
        reply_with(
            *[ADDRESS] * ADDRESSES,
            opt_record(size=1000),
            opt_record(size=2000),
            counts=(ADDRESSES, 0, 2),
        ),
        reply_with(
            *[ADDRESS] * 20,
            opt_record(size=1000),
            *[ADDRESS] * (ADDRESSES - 21),
            opt_record(size=2000),
            counts=(ADDRESSES, 0, 1),
        ),
        reply_with(
            *[ADDRESS] * ADDRESSES,
            opt_record(name=(END + 50 * len(ADDRESS) | 0xC000).to_bytes(2, "big"), size=1000),
            counts=(ADDRESSES, 0, 1),
        ),
    ],
    ids=["twice", "among the answers too", "with a name behind the cut"],
)
def test_a_reply_that_is_cut_keeps_one_opt_record_and_any_reader_takes_it(reply: bytes) -> None:
    assert classify(reply, PACKET, QUESTION) is Verdict.GOOD
    short = cut(reply, END, 512)
    assert len(short) <= 512
    message = dns.message.from_wire(short)
    assert message.flags & dns.flags.TC
    assert (message.edns, message.payload) == (0, 1000)


def test_an_opt_record_that_does_not_fit_is_left_out_of_a_reply_that_is_cut() -> None:
    padding = struct.pack("!HH", 12, 600) + bytes(600)
    reply = reply_with(ADDRESS, opt_record(options=padding), counts=(1, 0, 1))
    message = dns.message.from_wire(cut(reply, END, 512))
    assert message.flags & dns.flags.TC
    assert message.edns == -1
    assert message.answer
