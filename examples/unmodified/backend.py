"""Answers each request with the headers that it had; knows nothing of a mesh."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Headers(BaseHTTPRequestHandler):
    """Answers GET."""

    def do_GET(self) -> None:
        """Send back what was sent."""
        body = str(self.headers).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", 80), Headers).serve_forever()
