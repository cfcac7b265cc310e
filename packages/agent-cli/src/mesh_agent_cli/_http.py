"""One HTTP request to an agent on this machine, bounded in time and size."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from mesh_agent_cli._errors import CliError

MAX_PAGE_BYTES = 8 << 20
"""A status is a few kilobytes; with very many services a name's page is no longer."""
_READ_BYTES = 64 << 10
_PAGE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response."""

    status: int
    body: bytes


class Unanswered(Exception):
    """No HTTP answer came; the text says why, in words."""


class NotHttp(Unanswered):
    """The other side answered, but not in HTTP."""


class TooLong(Unanswered):
    """The answer is longer than any of this kind."""


def send(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    timeout_s: float,
    max_bytes: int | None = None,
) -> Answer:
    """Send one request; no redirects, no proxies.

    timeout_s: for all of it, however slowly the answer comes. max_bytes: of the answer's body.

    Raises:
        Unanswered: nothing answered.
        CliError: the URL cannot be used.
    """
    host, port, target = _parts(url)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    where = f"{host}:{connection.port}"
    too_late = threading.Event()
    try:
        connection.connect()
        with _ended_after(timeout_s, connection.sock, too_late):
            connection.request(method, target, body=body)
            response = connection.getresponse()
            return Answer(status=response.status, body=_body(response, where, max_bytes))
    except TimeoutError:
        raise Unanswered(f"no answer from {where} within {timeout_s:g} s") from None
    except ConnectionRefusedError:
        raise Unanswered(f"connection refused by {where}") from None
    except socket.gaierror as error:
        raise Unanswered(f"host {host} cannot be resolved ({error.strerror})") from None
    except http.client.InvalidURL:
        raise CliError(f"URL {url!r} holds characters that a URL cannot have") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if too_late.is_set():
            raise Unanswered(f"no whole answer from {where} within {timeout_s:g} s") from None
        if isinstance(error, OSError):
            said = error.strerror or error
            raise Unanswered(f"connection to {where} failed ({said})") from None
        raise NotHttp(f"{where} did not answer in HTTP ({type(error).__name__})") from None
    finally:
        connection.close()


def _parts(url: str) -> tuple[str, int | None, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise CliError(f"URL {url!r} cannot be read: {error}") from None
    if parts.scheme != "http" or not host:
        raise CliError(f"URL {url!r} is not an http:// URL with a host")
    return host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


@contextmanager
def _ended_after(
    timeout_s: float, sock: socket.socket, too_late: threading.Event
) -> Iterator[None]:
    """End the connection after a time; its own timeout begins anew with each byte that comes."""

    def end() -> None:
        too_late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
        if too_late.is_set():
            raise http.client.IncompleteRead(b"")
    finally:
        timer.cancel()


def _body(response: http.client.HTTPResponse, where: str, max_bytes: int | None) -> bytes:
    body = bytearray()
    while chunk := response.read(_READ_BYTES):
        body += chunk
        if max_bytes is not None and len(body) > max_bytes:
            raise TooLong(f"{where} answers with more than {max_bytes >> 20} MiB")
    return bytes(body)


def local_url(address: str, port: int, path: str) -> str:
    """Return the URL of an agent's port; an IPv6 address is put in brackets."""
    host = f"[{address}]" if ":" in address and not address.startswith("[") else address
    return f"http://{host}:{port}/{path.lstrip('/')}"


def fetch_object(
    url: str, *, purpose: str, program: str, timeout_s: float = _PAGE_TIMEOUT_S
) -> Mapping[str, object]:
    """Return the JSON object at a URL.

    purpose: of the question, as in `ask the agent for its status`. program: what should answer.

    Raises:
        CliError: there is none; the text says whether the program may be another one.
    """
    failed = f"cannot {purpose}"
    try:
        answer = send("GET", url, timeout_s=timeout_s, max_bytes=MAX_PAGE_BYTES)
    except (NotHttp, TooLong) as error:
        raise CliError(f"{failed}: {error}: is it {program}?") from None
    except Unanswered as error:
        raise CliError(f"{failed}: {error}: is it running?") from None
    if answer.status != 200:
        raise CliError(f"{failed}: {url} answered {answer.status}{_said(answer.body, program)}")
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CliError(f"{url} did not answer with a JSON object: is it {program}?")
    return found


def _said(body: bytes, program: str) -> str:
    """Return the beginning of a body; a page for browsers is not of a program of ours."""
    said = " ".join(body[:500].decode("utf-8", "replace").split())
    if said.startswith("<"):
        return f" with a page of HTML: is it {program}?"
    clean = "".join(each if each.isprintable() else "?" for each in said)
    return f": {clean}" if clean else ""
