"""Large messages wait for room by HTTP/2's flow control, whatever pieces their frames come in."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frames import (
    CONTINUATION,
    DATA,
    END_STREAM,
    HEADERS,
    PADDED,
    RST_STREAM,
    SETTINGS,
    Caller,
    data,
    frame,
    prefix,
    update,
)
from mesh_listening import Reason, RequestRoom
from mesh_listening.acceptors._frames import PREFACE, Frames, Kind

LARGE = 1_000_000
FIRST = 65_535  # what a client may send at once, prefix and all


def never(_seconds: float, _function: Callable[[], None]) -> None:
    """Look never by itself: a test does."""


def room_for(size: int, **bounds: int) -> RequestRoom:
    return RequestRoom(max_bytes=size, max_holder_bytes=size, later=never, **bounds)


def opened(*streams: int) -> bytes:
    return PREFACE + frame(SETTINGS, 0) + b"".join(frame(HEADERS, each) for each in streams)


def begun(stream: int, size: int = LARGE) -> bytes:
    """The first bytes of a message, as many as a client sends at once."""
    return data(stream, (prefix(size) + bytes(size))[:FIRST])


def rest(stream: int, size: int = LARGE) -> bytes:
    return data(stream, bytes(size + 5 - FIRST))


def test_a_message_that_has_room_is_let_come_at_once_and_its_room_ends_with_it() -> None:
    room = room_for(2 * LARGE)
    caller = Caller(room)
    caller.send(opened(1) + begun(1))
    caller.receive(update(1, LARGE))
    assert (caller.take(), room.bytes) == (update(1, LARGE), LARGE)
    caller.send(rest(1)[:-1])
    assert room.bytes == LARGE
    caller.send(rest(1)[-1:])
    assert (room.bytes, room.begun_bytes) == (0, 0)


def test_a_message_waits_until_there_is_room_and_then_gets_all_that_the_server_gave() -> None:
    room = room_for(LARGE)
    first, second = Caller(room), Caller(room)
    first.send(opened(1) + begun(1))
    first.receive(update(1, LARGE))
    second.send(opened(1) + begun(1))
    second.receive(update(1, 1000) + update(1, 500_000) + update(1, LARGE))
    assert (second.take(), room.waiting) == (b"", 1)
    first.send(rest(1))
    assert (second.take(), room.waiting) == (update(1, LARGE + 501_000), 0)
    second.send(rest(1))
    assert room.bytes == 0


def test_other_streams_of_its_connection_and_pings_do_not_wait() -> None:
    room = room_for(LARGE)
    room.hold("another", LARGE)
    caller = Caller(room)
    caller.send(opened(1, 3) + begun(1) + data(3, prefix(10) + b"0123456789"))
    others = update(0, LARGE) + update(3, 10) + frame(6, 0, b"pingpong", flags=1)
    caller.receive(update(1, LARGE) + others)
    assert caller.take() == others
    room.release("another", LARGE)
    assert caller.take() == update(1, LARGE)


def test_small_messages_are_free_however_many() -> None:
    room = room_for(1)
    caller = Caller(room)
    caller.send(opened(1) + data(1, (prefix(60_000) + bytes(60_000)) * 50))
    caller.receive(update(1, 3_000_000))
    assert (caller.take(), room.bytes, room.begun_bytes) == (update(1, 3_000_000), 0, 0)


def test_a_message_that_the_server_does_not_ask_for_needs_no_room() -> None:
    room = room_for(LARGE)
    caller = Caller(room)
    caller.send(opened(1) + begun(1, size=(1 << 32) - 1))
    assert (room.bytes, room.waiting, caller.ended) == (0, 0, None)
    caller.receive(frame(HEADERS, 1, b"refused", flags=END_STREAM))
    assert room.begun_bytes == 0


def test_what_it_is_owed_comes_between_two_frames() -> None:
    room = room_for(LARGE)
    room.hold("another", LARGE)
    caller = Caller(room)
    caller.send(opened(1, 3) + begun(1))
    response = data(3, bytes(range(200)))
    caller.receive(update(1, LARGE) + response[:50])
    room.release("another", LARGE)
    assert caller.take() == response[:50]
    caller.receive(response[50:100])
    caller.receive(response[100:] + update(3, 7))
    assert caller.take() == response[50:] + update(1, LARGE) + update(3, 7)


@pytest.mark.parametrize(
    "end",
    [
        lambda caller: caller.send(frame(RST_STREAM, 1, bytes(4))),
        lambda caller: caller.send(data(1, b"x", flags=END_STREAM)),
        lambda caller: caller.send(frame(HEADERS, 1, b"trailers", flags=END_STREAM)),
        lambda caller: caller.receive(frame(RST_STREAM, 1, bytes(4))),
        lambda caller: caller.receive(frame(HEADERS, 1, b"trailers", flags=END_STREAM)),
        lambda caller: caller.receive(data(1, b"response", flags=END_STREAM)),
        lambda caller: caller.receiving.close(),
    ],
    ids=["reset", "ended", "trailers", "server reset", "status", "server ended", "closed"],
)
@pytest.mark.parametrize("has_room", [True, False])
def test_a_stream_that_ends_needs_no_room_any_more(
    end: Callable[[Caller], None], *, has_room: bool
) -> None:
    room = room_for(LARGE)
    if not has_room:
        room.hold("another", LARGE)
    caller = Caller(room)
    caller.send(opened(1) + begun(1))
    caller.receive(update(1, LARGE))
    assert (room.bytes_of("one"), room.waiting) == ((LARGE, 0) if has_room else (0, 1))
    assert room.begun_bytes == (0 if has_room else FIRST - 5)
    end(caller)
    assert (room.bytes_of("one"), room.waiting, room.begun_bytes) == (0, 0, 0)
    caller.send(data(1, b"\0\xff\xff\xff\xff" + bytes(100)))  # It was on its way.
    assert room.begun_bytes == 0


def test_who_sends_on_without_room_loses_the_connection() -> None:
    room = room_for(LARGE)
    room.hold("another", LARGE)
    caller = Caller(room)
    caller.send(opened(1) + begun(1))
    caller.receive(update(1, LARGE))
    caller.send(data(1, bytes(65_000)))
    assert not caller.is_ended()  # It may have had that from an earlier message.
    caller.send(data(1, bytes(10_000)) + opened(3)[-9:] + begun(3))
    assert caller.ended is Reason.SENT_UNASKED
    assert (room.bytes_of("one"), room.waiting, room.begun_bytes) == (0, 0, 0)


def test_a_message_that_does_not_come_gives_way_to_those_that_wait() -> None:
    room = room_for(LARGE)
    silent, waiting = Caller(room), Caller(room, "two")
    for caller in (silent, waiting):
        caller.send(opened(1) + begun(1))
        caller.receive(update(1, LARGE))
    for _ in range(20):
        room.look()
    assert (silent.ended, waiting.ended) == (Reason.NOT_SENT, None)
    assert waiting.take() == update(1, LARGE)


def test_padding_is_no_part_of_a_message() -> None:
    room = room_for(LARGE)
    caller = Caller(room)
    padded = frame(DATA, 1, bytes([200]) + prefix(10) + b"01234" + bytes(200), flags=PADDED)
    all_padding = frame(DATA, 1, bytes([3]) + bytes(3), flags=PADDED)
    too_much = frame(DATA, 1, bytes([255, 1]), flags=PADDED)
    caller.send(opened(1) + padded + all_padding + too_much)
    assert room.begun_bytes == 5
    caller.send(data(1, b"56789" + prefix(LARGE)))
    caller.receive(update(1, LARGE))
    assert room.bytes == LARGE


def test_what_is_no_http2_goes_by() -> None:
    room = room_for(LARGE)
    caller = Caller(room)
    caller.send(b"GET / HT")
    caller.send(b"TP/1.1\r\n\r\n" + opened(1) + begun(1))
    assert room.begun_bytes == 0
    caller.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    caller.receiving.close()


def cut(whole: bytes, at: list[int]) -> list[bytes]:
    places = sorted({min(each, len(whole)) for each in at} | {0, len(whole)})
    return [whole[start:end] for start, end in pairwise(places)]


cuts = st.lists(st.integers(0, 2000), max_size=40)
streams = st.sampled_from([0, 1, 3, 5, 7])
kinds = st.sampled_from([DATA, HEADERS, RST_STREAM, SETTINGS, CONTINUATION, 8, 0x42])
frames = st.builds(
    lambda kind, stream, payload, flags: frame(kind, stream, payload, flags=flags),
    kinds,
    streams,
    st.binary(max_size=80) | st.builds(prefix, st.sampled_from([0, 3, 70, 70_000])),
    st.sampled_from([0, END_STREAM, PADDED, END_STREAM | PADDED]),
)


@given(st.lists(frames, max_size=20), cuts)
def test_frames_are_the_same_wherever_they_are_cut(some: list[bytes], at: list[int]) -> None:
    whole = b"".join(some)

    def walked(pieces: list[bytes], kind: frozenset[int]) -> list[tuple[int, int, int, bytes]]:
        walking, found = Frames(whole=kind), []
        for piece in pieces:
            for each in walking.walk(piece):
                payload = walking.data[each.start : each.end]
                if each.head >= 0:
                    found.append((each.kind, each.flags, each.stream, payload))
                else:
                    found[-1] = (*found[-1][:3], found[-1][3] + payload)
        assert (walking.left, walking.rest) == (0, b"")
        return found

    for kind in (frozenset[int](), frozenset({8})):
        assert walked(cut(whole, at), kind) == walked([whole], kind)
    again = [
        frame(kind, stream, p, flags=flags) for kind, flags, stream, p in walked([whole], kind)
    ]
    assert again == some


@given(st.lists(st.tuples(st.booleans(), frames), max_size=30), cuts, cuts)
def test_any_frames_in_any_pieces_go_on_and_leave_nothing_counted(
    some: list[tuple[bool, bytes]], at: list[int], there: list[int]
) -> None:
    """All that is sent goes on, but for what is held back of what the server sends."""
    outcomes = []
    for in_pieces in (False, True):
        room = room_for(100_000)
        caller = Caller(room)
        caller.send(opened(1, 3))
        sent = received = b""
        for from_client, each in some:
            pieces = cut(each, at if from_client else there) if in_pieces else [each]
            for piece in pieces:
                (caller.send if from_client else caller.receive)(piece)
            sent += each if from_client else b""
            received += b"" if from_client else each
        outcomes.append((caller.to_client, room.bytes, room.begun_bytes, room.waiting))
        given_out, came = windows(caller.to_client), windows(received)
        assert all(came.get(stream, 0) >= size for stream, size in given_out.items())
        assert others(caller.to_client) == others(received)
        caller.receiving.close()
        assert (room.bytes, room.begun_bytes, room.waiting) == (0, 0, 0)
    assert outcomes[0] == outcomes[1]


def parsed(whole: bytes) -> list[tuple[int, int, bytes]]:
    walking = Frames(whole=frozenset({Kind.WINDOW_UPDATE}))
    return [(each.kind, each.stream, whole[each.start : each.end]) for each in walking.walk(whole)]


def windows(whole: bytes) -> dict[int, int]:
    sums: dict[int, int] = {}
    for kind, stream, payload in parsed(whole):
        if kind == Kind.WINDOW_UPDATE and len(payload) == 4:
            sums[stream] = sums.get(stream, 0) + struct.unpack(">I", payload)[0]
    return sums


def others(whole: bytes) -> list[tuple[int, int, bytes]]:
    return [
        each for each in parsed(whole) if not (each[0] == Kind.WINDOW_UPDATE and len(each[2]) == 4)
    ]
