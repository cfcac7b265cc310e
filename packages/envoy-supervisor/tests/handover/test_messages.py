"""The messages of a hot restart, against bytes of real Envoys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor.handover._messages import (
    NO_SOCKET,
    Request,
    Subject,
    admin_is_shut_down,
    ask_for_socket,
    no_statistics,
    passed_socket,
    read_passed_socket,
    read_request,
)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(8, "big") + body


@pytest.mark.parametrize(
    ("body", "subject"),
    [
        (b"\x0a\x02\x12\x00", Subject.SHUTDOWN_ADMIN),
        (b"\x0a\x02\x1a\x00", Subject.STATS),
        (b"\x0a\x02\x22\x00", Subject.DRAIN_LISTENERS),
        (b"\x0a\x02\x2a\x00", Subject.TERMINATE),
    ],
)
def test_requests_of_envoy_are_understood(body: bytes, subject: Subject) -> None:
    assert read_request(framed(body)) == Request(subject=subject)


def test_a_namespace_of_its_own_is_reported() -> None:
    address = b"\x0a\x0atcp://a:80" + b"\x1a\x06/netns"
    body = b"\x0a" + bytes([len(address)]) + address
    request = read_request(framed(b"\x0a" + bytes([len(body)]) + body))
    assert request is not None
    assert request.other_network_namespace


def test_answers_are_written_as_envoy_writes_them() -> None:
    assert no_statistics() == framed(b"\x12\x02\x1a\x00")
    assert admin_is_shut_down(started=300) == framed(b"\x12\x07\x12\x05\x08\xac\x02\x10\x01")
    minus_one = b"\x08" + b"\xff" * 9 + b"\x01"
    assert passed_socket(NO_SOCKET) == framed(b"\x12\x0d\x0a\x0b" + minus_one)


@given(address=st.text(max_size=200), worker=st.integers(0, 2**32 - 1))
def test_a_question_is_read_as_it_was_asked(address: str, worker: int) -> None:
    expected = Request(subject=Subject.PASS_LISTEN_SOCKET, address=address, worker=worker)
    assert read_request(ask_for_socket(address, worker)) == expected


@given(number=st.integers(0, 2**31 - 1) | st.just(NO_SOCKET))
def test_a_passed_socket_keeps_its_number(number: int) -> None:
    assert read_passed_socket(passed_socket(number)) == number


@given(st.binary() | st.binary().map(framed))
def test_any_datagram_can_be_read(datagram: bytes) -> None:
    read_request(datagram)
    read_passed_socket(datagram)


def test_other_messages_are_no_socket() -> None:
    assert read_passed_socket(framed(b"\x18\x01")) is None  # did not recognise the last one
    assert read_request(framed(b"\x18\x01")) is None
    assert read_request(framed(b"\x0a\x02\x32\x00")) is None  # a request of the future
