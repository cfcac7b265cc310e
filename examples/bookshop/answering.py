"""A small HTTP server for the programs of this example, and their calls of one another."""

import json
import os
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

# The headers by which requests are told apart on their way, such as the reader's name.
PASSED_ON = ("reader", "x-request-id")
ME = os.environ.get("MESH_WORKLOAD", "a program")

Answer = Callable[[str, dict[str, str]], tuple[int, str, str]]
"""Takes a path and the headers; returns status, content type and body."""


def call(url: str, headers: dict[str, str]) -> tuple[int, dict]:
    """Ask another service; return the status and the JSON, or 0 and the reason."""
    passed = {name: headers[name] for name in PASSED_ON if name in headers}
    try:
        request = Request(url, headers=passed)  # noqa: S310 - always http
        with urlopen(request, timeout=10) as response:  # noqa: S310
            return response.status, json.load(response)
    except HTTPError as error:
        return error.code, {"reason": f"status {error.code}"}
    except (URLError, OSError, ValueError) as error:
        return 0, {"reason": str(error)}


def serve(answer: Answer) -> None:
    """Answer GET requests until the process ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, kind, body = answer(self.path, headers)
            data = body.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), Handler).serve_forever()


def as_json(status: int = 200, **fields: object) -> tuple[int, str, str]:
    """Answer with fields, and with the name of the workload that answers."""
    return status, "application/json", json.dumps({"by": ME, **fields})
