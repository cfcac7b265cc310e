"""What answers at the agent's port may be anything: each command ends, soon, with one sentence."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from cli_fixtures import Call, Serve
from mesh_agent_cli import CliError
from mesh_agent_cli._http import MAX_PAGE_BYTES, Unanswered, fetch_object, send

COMMANDS = (("status",), ("certs",), ("dns", "web"))


@contextmanager
def peer(behave: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server whose every connection behaves as a test sets it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stopped = threading.Event()

        def serve() -> None:
            while not stopped.is_set():
                with suppress(OSError):
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            stopped.set()
            with suppress(OSError), socket.create_connection(listener.getsockname()):
                pass
            thread.join()


def drip(connection: socket.socket) -> None:
    """Answer so slowly that each byte comes in time, and the answer never."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        connection.sendall(b"a")
        time.sleep(0.02)


@pytest.mark.parametrize("words", COMMANDS)
def test_an_answer_of_20_mb_is_not_read_to_its_end(
    call: Call, serve: Serve, words: tuple[str, ...]
) -> None:
    with serve((200, b'{"x": "' + b"a" * (20 << 20) + b'"}')) as server:
        called = call(*words, "--address", "127.0.0.1", "--port", str(server.port))
    assert called.status == 1
    assert f"more than {MAX_PAGE_BYTES >> 20} MiB: is it a mesh-agent" in called.error
    assert called.error.count("\n") == 1


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((200, b"<html><body>hello</body></html>"), "is it a mesh-agent"),
        ((404, b"<!DOCTYPE HTML>\n<html>"), "answered 404 with a page of HTML: is it a mesh-agent"),
        ((500, b"\x1b[31mbroken\x07"), "answered 500: ?[31mbroken?"),
        ((200, b"[" * 100_000), "is it a mesh-agent"),
        ((200, b"\xff\xfe"), "is it a mesh-agent"),
    ],
)
def test_another_program_is_recognised(
    call: Call, serve: Serve, words: tuple[str, ...], answer: tuple[int, bytes], sentence: str
) -> None:
    with serve(answer) as server:
        called = call(*words, "--address", "127.0.0.1", "--port", str(server.port))
    assert (called.status, called.out) == (1, "")
    assert sentence in called.error
    assert called.error.count("\n") == 1


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"certificate": [], "xds": {"types": []}, "envoy": "new", "names": 7, "agent": None},
        {"certificate": {"serial": 5, "chain": [1, {"serial": {}}], "roots": "x"}, "ready": "yes"},
        {"xds": {"types": {"a": {"version": "\x1b[2J" * 500, "nack": "x" * 10_000, "at": 9}}}},
        {"answers": [3, {"data": ["x"]}], "rule": {"a": 1}, "upstreams": "x", "code": 9},
        {"conditions": {"a": "", "b": "why"}, "health_check": {"healthy": False, "x": [1]}},
    ],
)
def test_an_agent_of_another_version_does_no_harm(
    call: Call, serve: Serve, words: tuple[str, ...], document: object
) -> None:
    with serve((200, json.dumps(document).encode())) as server:
        called = call(*words, "--address", "127.0.0.1", "--port", str(server.port))
    # None of these tells that all is well.
    assert (called.status, called.error) == (0 if words[0] == "dns" else 1, "")
    assert "\x1b" not in called.out
    assert all(len(line) <= 80 for line in called.out.splitlines())


def hang(connection: socket.socket) -> None:
    """Answer nothing, until the client has gone."""
    while connection.recv(10_000):
        pass


@pytest.mark.parametrize("behave", [hang, drip])
def test_one_that_hangs_or_drips_is_given_up(behave: Callable[[socket.socket], None]) -> None:
    with peer(behave) as port, pytest.raises(Unanswered, match=r"answer from .* within 0\.3 s"):
        send("GET", f"http://127.0.0.1:{port}/", timeout_s=0.3)


def test_one_that_ends_in_the_middle_is_no_agent() -> None:
    def behave(connection: socket.socket) -> None:
        connection.recv(10_000)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")

    with peer(behave) as port, pytest.raises(CliError, match="is it a mesh-agent"):
        fetch_object(f"http://127.0.0.1:{port}/", purpose="ask", program="a mesh-agent")
