"""The called service: says hello, and what it knows of its caller.

Its Envoy has checked the caller's certificate before a request arrives here, and writes what it
saw into the header x-forwarded-client-cert. This program itself knows nothing of TLS.
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Backend(BaseHTTPRequestHandler):
    """Answers every GET with a greeting."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits 40 ms for the headers' acknowledgement

    def do_GET(self) -> None:
        """Answer with who we are and who asked."""
        answer = {
            "message": "hello from the backend",
            "served-by": os.environ.get("MESH_WORKLOAD", "backend"),
            "path": self.path,
            "x-forwarded-client-cert": self.headers.get("x-forwarded-client-cert"),
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    address = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "9080"))
    print(f"backend listens on {address[0]}:{address[1]}")
    ThreadingHTTPServer(address, Backend).serve_forever()
