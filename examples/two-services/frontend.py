"""The calling service: asks the backend by its name in the mesh, and shows the answer.

The environment holds http_proxy, which points to this workload's Envoy; urllib obeys it by
itself. Envoy finds a backend, makes the connection mutual TLS and passes the request on.
"""

import os
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BACKEND = os.environ.get("BACKEND_URL", "http://backend.shop:9080/hello")


class Frontend(BaseHTTPRequestHandler):
    """Answers every GET with what the backend said."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits 40 ms for the headers' acknowledgement

    def do_GET(self) -> None:
        """Ask the backend and hand its answer on."""
        try:
            with urllib.request.urlopen(BACKEND, timeout=5) as response:  # noqa: S310
                status, body = 200, b'{"backend-said": ' + response.read() + b"}"
        except urllib.error.HTTPError as error:
            with error:
                status, body = 502, b"the backend answered " + str(error.code).encode()
        except OSError as error:
            status, body = 502, f"the backend can't be reached: {error}".encode()
        self.send_response(status)
        self.send_header("content-type", "application/json" if status == 200 else "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    address = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "9080"))
    print(f"frontend listens on {address[0]}:{address[1]}, calls {BACKEND}")
    ThreadingHTTPServer(address, Frontend).serve_forever()
