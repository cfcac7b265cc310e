"""A local HTTP server that answers as a test sets it, and the command called in this process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from cli_fixtures import Call, Called, Serve, Server
from mesh_agent_cli import main


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
            with suppress(ConnectionError):  # a client may have had enough
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
def serve() -> Serve:
    return _serve


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.delenv("MESH_AGENT_BIND_ADDRESS", raising=False)

    def run(*words: str, plugins: Mapping[str, EntryPoint] | None = None) -> Called:
        status = main(words, plugins=plugins or {})
        output = capfd.readouterr()
        return Called(status, output.out, output.err)

    return run
