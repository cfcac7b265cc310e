"""Requests as no well-behaved client sends them, in HTTP/1.1 and HTTP/2, over a plain socket."""

from __future__ import annotations

import asyncio
import ssl
import struct

from mesh_testkit import PATIENCE_S

FORBIDDEN = ("quitquitquit", "config_dump", "certs", "logging", "healthcheck/fail")


def paths_to(target: str) -> tuple[str, ...]:
    """Every way known to reach another page of the admin interface than the one that is offered."""
    return (
        f"/{target}",
        f"//{target}",
        f"/stats/prometheus/../../{target}",
        f"/stats/prometheus/../..//{target}",
        f"/stats/prometheus/%2e%2e/%2e%2e/{target}",
        f"/stats/prometheus/..%2f..%2f{target}",
        f"/stats/prometheus%2f..%2f..%2f{target}",
        f"/stats/prometheus/..%5c..%5c{target}",
        f"/stats/prometheus/..\\..\\{target}",
        f"/stats/prometheus/..%00/../{target}",
        f"/stats/prometheus;/../../{target}",
        f"/stats/prometheus/..;/..;/{target}",
        f"/stats/prometheus/.%2e/.%2e/{target}",
        f"/stats/prometheus/%252e%252e/%252e%252e/{target}",
        f"/stats//prometheus/../..//{target}",
        f"/stats/prometheus?/../../{target}",
        f"/stats/prometheus#/../../{target}",
        f"/stats/prometheus%3f/../../{target}",
        f"/stats/prometheus/..//../{target}?usedonly",
        f"/healthz/ready/../../{target}",
        f"/metrics/../{target}",
        f"http://admin/stats/prometheus/../../{target}",
        f"http://admin/{target}",
        f"stats/prometheus/../../{target}",
        f"*/../{target}",
    )


async def ask(
    port: int, method: str, path: str, *, http2: bool, tls: ssl.SSLContext | None = None
) -> bytes:
    """Send one request as it is and return the bytes of the answer; b"" for a refused one."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname=None if tls is None else "127.0.0.1"
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(_http2(method, path) if http2 else _http1(method, path))
            return await (_http2_answer(reader) if http2 else _http1_answer(reader, method))
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    except TimeoutError as error:
        raise AssertionError(f"no answer to {method} {path} with http2={http2}") from error
    finally:
        writer.close()


def _http1(method: str, path: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode()


def _http2(method: str, path: str) -> bytes:
    """RFC 9113 §4.1 frames; header fields as literals without indexing (RFC 7541 §6.2.2)."""
    fields = ((":method", method), (":scheme", "http"), (":authority", "a"), (":path", path))
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    return preface + _frame(0x4, 0, 0, b"") + _frame(0x1, 0x5, 1, block)


def _text(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127  # a longer length takes more than the one byte written here
    return bytes([len(data)]) + data


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


async def _http1_answer(reader: asyncio.StreamReader, method: str) -> bytes:
    """Not to the connection's end: Envoy leaves a second for the client to close it."""
    head = await reader.readuntil(b"\r\n\r\n")
    if method == "HEAD":
        return head
    if b"transfer-encoding: chunked" in head:
        return head + await reader.readuntil(b"\r\n0\r\n\r\n")
    _, named, rest = head.partition(b"content-length: ")
    return head + await reader.readexactly(int(rest.split()[0]) if named else 0)


async def _http2_answer(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end of stream 1, its reset, or the connection's."""
    found = b""
    while True:
        try:
            head = await reader.readexactly(9)
            payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
        except asyncio.IncompleteReadError:
            return found
        kind, flags = head[3], head[4]
        if kind in {0x0, 0x1}:
            found += payload
        ended = kind in {0x0, 0x1} and flags & 0x1
        if ended or kind in {0x3, 0x7}:
            return found
