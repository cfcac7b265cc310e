"""Any bytes from an Envoy: its statistics, a line of its output, a message of a hot restart."""

from __future__ import annotations

from collections.abc import Iterator

from envoy_supervisor.admin._stats import parse_stats
from envoy_supervisor.handover._messages import read_passed_socket, read_request
from envoy_supervisor.processes._output_log import parse_line


def check(data: bytes) -> None:
    """Each has a result whatever it is."""
    kind, content = data[:1], data[1:]
    match kind:
        case b"s":
            for value in parse_stats(content.decode("utf-8", "replace")).values():
                assert isinstance(value, str) or value >= 0
        case b"o":
            assert isinstance(parse_line(content).text, str)
        case _:
            request = read_request(content)
            assert request is None or isinstance(request.address, str)
            number = read_passed_socket(content)
            assert number is None or isinstance(number, int)


def originals() -> Iterator[bytes]:
    """What an Envoy prints and sends."""
    yield b"s cluster.x: 5\nlistener.0.0.0.0_80.downstream_cx_total: 7\nhist: P0(nan,1) P50(2,3)\n"
    yield b'scontrol_plane.identifier: "{\\"a\\": 1}"\nserver.state: 0\n'
    yield b"o[1700000000.123456][12][info][main] [source/server/server.cc:1] started"
    yield b'o{"level":"warning","time":"2026-01-01T00:00:00Z","scope":"envoy main","msg":"x"}'
    address = b"tcp://127.0.0.1:80"
    pass_socket = b"\x0a" + bytes([len(address)]) + address + b"\x10\x01"
    request = b"\x0a" + bytes([len(pass_socket) + 2]) + b"\x0a" + bytes([len(pass_socket)])
    message = request + pass_socket
    yield b"h" + len(message).to_bytes(8, "big") + message
    yield b"h" + (6).to_bytes(8, "big") + b"\x12\x04\x0a\x02\x08\x07"
