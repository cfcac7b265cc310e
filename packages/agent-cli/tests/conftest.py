"""A local HTTP server that answers as told, and the command called in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mesh_agent_cli import main


@dataclass(slots=True)
class Server:
    """Answers in order, the last one again and again; remembers what it was asked."""

    answers: list[tuple[int, bytes]]
    port: int = 0
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def _serve(
    *answers: tuple[int, bytes], address: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[Server]:
    server = Server(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            server.asked.append((self.command, self.path, self.rfile.read(length)))
            status, body = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815 - the names are http.server's

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(address, Handler) as http:
        server.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture
def serve() -> Callable[..., object]:
    return _serve


@dataclass(frozen=True, slots=True)
class Called:
    status: int
    out: str
    error: str


@pytest.fixture
def call(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Called]:
    """Run `mesh-agent` with these words and no plugins unless given some."""
    monkeypatch.delenv("MESH_AGENT_BIND_ADDRESS", raising=False)

    def run(*words: str, plugins: dict[str, object] | None = None) -> Called:
        status = main(words, plugins=plugins or {})  # type: ignore[arg-type]
        captured = capfd.readouterr()
        return Called(status, captured.out, captured.err)

    return run
