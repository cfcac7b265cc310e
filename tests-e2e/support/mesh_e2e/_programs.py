"""Programs of workloads that are functions: `mesh_local.Workload(..., program=answer)`."""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer with what came; `/endless` with a line every tenth of a second."""
        if self.path == "/endless":
            self._stream()
            return
        length = int(self.headers.get("content-length") or 0)
        document = {
            "by": os.environ["MESH_WORKLOAD"],
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": self.rfile.read(length).decode(),
        }
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"5\r\ntick\n\r\n")
            time.sleep(0.1)


def answer() -> None:
    """Serve at HOST and PORT."""
    print("answering", flush=True)
    ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), _Answers).serve_forever()
