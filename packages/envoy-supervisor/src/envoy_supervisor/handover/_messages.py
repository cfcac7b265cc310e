"""The messages of a hot restart between child and parent, as bytes. Pure.

Each message is one datagram: eight bytes of length, big endian, and a `HotRestartMessage` of
Envoy's source/server/hot_restart.proto. Written by hand for the few fields that matter, so that
this package needs no protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import msgspec

_REQUEST, _REPLY = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ADDRESS, _WORKER_INDEX, _NETWORK_NAMESPACE = 1, 2, 3
NO_SOCKET = -1
MAX_DATAGRAM_BYTES = 65536


class Subject(IntEnum):
    """The subject of a request and of its reply: the number of its field."""

    PASS_LISTEN_SOCKET = 1
    SHUTDOWN_ADMIN = 2
    STATS = 3
    DRAIN_LISTENERS = 4
    TERMINATE = 5


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request. Address and worker are set when it is about a listening socket.

    address: as in `tcp://127.0.0.1:80`, `tcp://[::1]:80`, `unix:///path`.
    worker: the index of a listener's socket, if each worker thread has its own.
    other_network_namespace: the address is one of another network namespace.
    """

    subject: Subject
    address: str = ""
    worker: int = 0
    other_network_namespace: bool = False


def read_request(datagram: bytes) -> Request | None:
    """Return the request in a datagram; None if there is none that is known here."""
    try:
        for number, body in _fields(datagram[8:]):
            if number != _REQUEST or isinstance(body, int):
                continue
            for subject, content in _fields(body):
                if subject in Subject.__members__.values() and not isinstance(content, int):
                    return _request(Subject(subject), content)
    except ValueError:
        pass
    return None


def _request(subject: Subject, content: bytes) -> Request:
    if subject is not Subject.PASS_LISTEN_SOCKET:
        return Request(subject=subject)
    fields = dict(_fields(content))
    address, worker = fields.get(_ADDRESS), fields.get(_WORKER_INDEX)
    return Request(
        subject=subject,
        address=address.decode("utf-8", "surrogateescape") if isinstance(address, bytes) else "",
        worker=worker if isinstance(worker, int) else 0,
        other_network_namespace=bool(fields.get(_NETWORK_NAMESPACE)),
    )


def ask_for_socket(address: str, worker: int) -> bytes:
    """Return the datagram that asks for a listening socket."""
    content = _text(_ADDRESS, address.encode("utf-8", "surrogateescape"))
    content += _number(_WORKER_INDEX, worker)
    return _framed(_REQUEST, Subject.PASS_LISTEN_SOCKET, content)


def read_passed_socket(datagram: bytes) -> int | None:
    """Return the number that a passed descriptor has in its sender, or `NO_SOCKET`.

    None: the datagram is another message.
    """
    try:
        for number, body in _fields(datagram[8:]):
            if number != _REPLY or isinstance(body, int):
                continue
            for subject, content in _fields(body):
                if subject == Subject.PASS_LISTEN_SOCKET and not isinstance(content, int):
                    value = dict(_fields(content)).get(1, 0)
                    return NO_SOCKET if not isinstance(value, int) or value >> 31 else value
    except ValueError:
        pass
    return None


def passed_socket(number: int) -> bytes:
    """Return the answer with a socket; the descriptor itself goes beside it."""
    return _framed(_REPLY, Subject.PASS_LISTEN_SOCKET, _number(1, number))


def admin_is_shut_down(*, started: int) -> bytes:
    """Return the answer of an Envoy whose first epoch began at that time (seconds since 1970).

    The answer also says that listeners have a socket for each worker unless they say otherwise,
    which has been so on Linux for every version that is supported.
    """
    return _framed(_REPLY, Subject.SHUTDOWN_ADMIN, _number(1, started) + _number(2, 1))


def no_statistics() -> bytes:
    """Return the answer of an Envoy that has no statistics to add."""
    return _framed(_REPLY, Subject.STATS, b"")


def _framed(kind: int, subject: Subject, content: bytes) -> bytes:
    body = _text(kind, _text(subject, content))
    return len(body).to_bytes(8, "big") + body


def _text(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    # Negative numbers are written as 64 bits of two's complement.
    return _varint(number << 3 | _VARINT) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield a message's fields in their order; raises ValueError for other bytes."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _read_varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(message):
            raise ValueError("cut off")
        yield number, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("cut off")
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError("a number of more than 64 bits")
