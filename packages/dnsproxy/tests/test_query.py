"""Queries taken apart: any bytes have an outcome, and dnspython reads the same from them."""

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_dnsproxy import NameEntry
from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.message._query import Query, Refusal, parse_query
from mesh_dnsproxy.table._compiled import Scope, compile_table


def make_answerer() -> Answerer:
    answerer = Answerer(Counts())
    scope = Scope.from_texts(
        domain="svc.cluster.local", namespace="ns", search="ns.svc.cluster.local"
    )
    building = compile_table({"known.example": NameEntry(("10.0.0.1",))}.items(), scope)
    try:
        while True:
            next(building)
    except StopIteration as done:
        answerer.use_table(done.value)
    return answerer


ANSWERER = make_answerer()
GOOD = dns.message.make_query("known.example.", "A", use_edns=0, payload=1400, id=0x1234).to_wire()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    packet = bytearray(GOOD)
    for _ in range(draw(st.integers(0, 6))):
        match draw(st.integers(0, 3)):
            case 0:
                packet[draw(st.integers(0, max(0, len(packet) - 1))) :] = b""
            case 1 if packet:
                packet[draw(st.integers(0, len(packet) - 1))] = draw(st.integers(0, 255))
            case 2:
                packet += draw(st.binary(max_size=20))
            case _:
                at = draw(st.integers(0, len(packet)))
                packet[at:at] = draw(st.binary(max_size=6))
    return bytes(packet)


@given(mutated() | st.binary(max_size=100))
def test_any_packet_has_an_answer_that_dnspython_reads_or_none(packet: bytes) -> None:
    before = ANSWERER._counts.internal_errors
    for over_tcp in (False, True):
        outcome = ANSWERER.answer(packet, over_tcp=over_tcp)
        is_query = len(packet) >= 12 and not packet[2] & 0x80
        assert (outcome is not None) == is_query
        if isinstance(outcome, bytes):
            answer = dns.message.from_wire(outcome)
            assert outcome[:2] == packet[:2]
            assert answer.flags & dns.flags.QR
            assert answer.opcode() == dns.opcode.Opcode(packet[2] >> 3 & 15)
    assert ANSWERER._counts.internal_errors == before


@given(mutated())
def test_what_is_taken_for_a_query_is_one_for_dnspython(packet: bytes) -> None:
    query = parse_query(packet)
    if not isinstance(query, Query):
        return
    try:
        message = dns.message.from_wire(packet)
    except dns.exception.DNSException:
        # dnspython also reads the data of records and options, which are not read here.
        assert not query.plain
        return
    (question,) = message.question
    assert question.name.to_wire() == query.question[:-4]
    assert (question.rdtype, question.rdclass) == (query.qtype, query.qclass)
    assert (query.edns is None) == (message.opt is None)
    if query.edns is not None:
        assert (query.edns.udp_bytes, query.edns.dnssec_ok) == (
            message.payload,
            bool(message.ednsflags & 0x8000),
        )


def rcode_of(packet: bytes) -> dns.rcode.Rcode:
    outcome = ANSWERER.answer(packet, over_tcp=False)
    assert isinstance(outcome, bytes)
    return dns.message.from_wire(outcome).rcode()


@pytest.mark.parametrize("opcode", [1, 2, 3, 4, 5, 6, 15])
def test_another_opcode_is_not_implemented(opcode: int) -> None:
    packet = bytearray(GOOD)
    packet[2] |= opcode << 3
    assert rcode_of(bytes(packet)) == dns.rcode.NOTIMP
    header = bytes((0, 1, opcode << 3, 0)) + bytes(8)
    assert rcode_of(header) == dns.rcode.NOTIMP


def test_flags_that_mean_nothing_are_not_repeated() -> None:
    packet = bytearray(GOOD)
    packet[2] |= 0x06  # AA and TC
    packet[3] |= 0xE0  # RA, Z and AD
    outcome = ANSWERER.answer(bytes(packet), over_tcp=False)
    assert isinstance(outcome, bytes)
    assert outcome[2:4] == b"\x85\x80"


def test_checking_disabled_and_dnssec_ok_are_repeated() -> None:
    query = dns.message.make_query("known.example.", "A", want_dnssec=True)
    query.flags |= dns.flags.CD
    outcome = ANSWERER.answer(query.to_wire(), over_tcp=False)
    assert isinstance(outcome, bytes)
    answer = dns.message.from_wire(outcome)
    assert answer.flags & dns.flags.CD
    assert answer.ednsflags & 0x8000


def test_another_version_of_edns_is_answered_with_ours() -> None:
    query = dns.message.make_query("known.example.", "A", use_edns=1)
    outcome = ANSWERER.answer(query.to_wire(), over_tcp=False)
    assert isinstance(outcome, bytes)
    answer = dns.message.from_wire(outcome)
    assert answer.rcode() == dns.rcode.BADVERS
    assert answer.edns == 0
    assert not answer.answer


def test_unknown_flags_and_options_of_edns_are_left_alone() -> None:
    query = dns.message.make_query("known.example.", "A", use_edns=0, ednsflags=0x0080)
    query.use_edns(
        0, 0x0080, 1232, options=[dns.edns.GenericOption(dns.edns.OptionType.make(100), b"\1\2")]
    )
    outcome = ANSWERER.answer(query.to_wire(), over_tcp=False)
    assert isinstance(outcome, bytes)
    answer = dns.message.from_wire(outcome)
    assert answer.answer
    assert answer.ednsflags == 0
    assert not answer.options


def test_without_edns_there_is_none_in_the_answer() -> None:
    outcome = ANSWERER.answer(
        dns.message.make_query("known.example.", "A", use_edns=-1).to_wire(), over_tcp=False
    )
    assert isinstance(outcome, bytes)
    assert dns.message.from_wire(outcome).edns == -1


MALFORMED = [
    ("two questions", GOOD[:4] + b"\0\2" + GOOD[6:], dns.rcode.FORMERR),
    ("no question", GOOD[:4] + bytes(8), dns.rcode.SERVFAIL),
    ("two OPT records", GOOD[:10] + b"\0\2" + GOOD[12:] + GOOD[-11:], dns.rcode.FORMERR),
    ("bytes behind the end", GOOD + b"\0", dns.rcode.FORMERR),
    ("a pointer as a name", GOOD[:12] + b"\xc0\x0c\0\1\0\1", dns.rcode.FORMERR),
    ("an end in the name", GOOD[:15], dns.rcode.FORMERR),
    ("an option without an end", GOOD[:-2] + b"\0\3\0\x0a\0", dns.rcode.FORMERR),
]


@pytest.mark.parametrize(
    ("what", "packet", "rcode"),
    MALFORMED,
    ids=[case[0] for case in MALFORMED],
)
def test_what_is_malformed_is_answered_as_such(what: str, packet: bytes, rcode: int) -> None:
    del what
    assert rcode_of(packet) == rcode


@pytest.mark.parametrize("kind", ["AXFR", "IXFR"])
def test_zone_transfers_are_refused(kind: str) -> None:
    query = dns.message.make_query("known.example.", kind)
    query.authority = []
    assert rcode_of(query.to_wire()) == dns.rcode.REFUSED


def test_another_class_is_somebody_elses() -> None:
    query = dns.message.make_query("version.bind.", "TXT", "CH")
    assert isinstance(ANSWERER.answer(query.to_wire(), over_tcp=False), Forward)
    query = dns.message.make_query("known.example.", "A", "CH")
    assert isinstance(ANSWERER.answer(query.to_wire(), over_tcp=False), Forward)


def test_an_answer_is_never_answered() -> None:
    packet = bytearray(GOOD)
    packet[2] |= 0x80
    assert ANSWERER.answer(bytes(packet), over_tcp=False) is None
    assert not isinstance(parse_query(bytes(packet)), Refusal | Query)


def test_a_mistake_of_ours_is_answered_with_servfail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answerer = make_answerer()
    answerer._table = "no table"  # type: ignore[assignment]
    outcome = answerer.answer(GOOD, over_tcp=False)
    assert isinstance(outcome, bytes)
    assert outcome[:2] == GOOD[:2]
    assert dns.message.from_wire(outcome).rcode() == dns.rcode.SERVFAIL
    assert "query failed" in caplog.text
