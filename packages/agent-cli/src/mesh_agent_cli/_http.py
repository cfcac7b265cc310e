"""One HTTP request to an agent on this machine."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from mesh_agent_cli._errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response."""

    status: int
    body: bytes


class Unanswered(Exception):
    """No HTTP answer came; the text says why, in words."""


class NotHttp(Unanswered):
    """The other side answered, but not in HTTP."""


def send(method: str, url: str, *, body: bytes | None = None, timeout_s: float) -> Answer:
    """Send one request; no redirects, no proxies.

    Raises:
        Unanswered: nothing answered.
        CliError: the URL cannot be used.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise CliError(f"URL {url!r} cannot be read: {error}") from None
    if parts.scheme != "http" or not host:
        raise CliError(f"URL {url!r} is not an http:// URL with a host")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    where = f"{host}:{connection.port}"
    try:
        connection.request(method, target, body=body)
        response = connection.getresponse()
        return Answer(status=response.status, body=response.read())
    except TimeoutError:
        raise Unanswered(f"no answer from {where} within {timeout_s:g} s") from None
    except ConnectionRefusedError:
        raise Unanswered(f"connection refused by {where}") from None
    except socket.gaierror as error:
        raise Unanswered(f"host {host} cannot be resolved ({error.strerror})") from None
    except OSError as error:
        raise Unanswered(f"connection to {where} failed ({error.strerror or error})") from None
    except http.client.InvalidURL:
        raise CliError(f"URL {url!r} holds characters that a URL cannot have") from None
    except (http.client.HTTPException, ValueError) as error:
        raise NotHttp(f"{where} did not answer in HTTP ({type(error).__name__})") from None
    finally:
        connection.close()


def local_url(address: str, port: int, path: str) -> str:
    """Returns the URL of an agent's port; an IPv6 address is put in brackets."""
    host = f"[{address}]" if ":" in address and not address.startswith("[") else address
    return f"http://{host}:{port}/{path.lstrip('/')}"
