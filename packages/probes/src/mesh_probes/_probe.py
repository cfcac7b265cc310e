"""Probes as values: what is checked, and how long it may take.

The actions are those of Kubernetes. Source:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Probe
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mesh_lifecycle import check_fields
from mesh_probes._errors import ProbeConfigError

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_HOST_BAD = re.compile(r"[\s/?#@\\\x00-\x1f\x7f]")
_VALUE_BAD = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGet:
    """A GET request, healthy if the status is from 200 to 399. Raises `ValueError` for bad fields.

    host: to connect to; "" for the host that `check` is given.
    headers: replace those that are forwarded, by name; `Host` among them is what the application
    is sent, not where the request goes.
    http2: offer HTTP/2 in the TLS handshake, so only with https.
    """

    port: int
    path: str = "/"
    host: str = ""
    scheme: Literal["http", "https"] = "http"
    headers: tuple[tuple[str, str], ...] = ()
    http2: bool = False

    def __post_init__(self) -> None:
        _raise_first(_problems_of_http(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSocket:
    """A connection, healthy if it is accepted. Raises `ValueError` for bad fields.

    host: to connect to; "" for the host that `check` is given.
    """

    port: int
    host: str = ""

    def __post_init__(self) -> None:
        _raise_first(_problems_of_address(self.host, self.port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A command with arguments, healthy if it ends with 0. Raises `ValueError` for bad fields."""

    command: tuple[str, ...]

    def __post_init__(self) -> None:
        _raise_first(_problems_of_command(self.command))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcHealth:
    """A call of `grpc.health.v1.Health/Check` without TLS, healthy if the answer is SERVING.

    host: to connect to; "" for the host that `check` is given.
    service: the name that the server is asked about; "" for the server as a whole.
    Raises `ValueError` for bad fields.
    """

    port: int
    host: str = ""
    service: str = ""

    def __post_init__(self) -> None:
        _raise_first(_problems_of_address(self.host, self.port))
        _raise_first(_problems_of_text("service", self.service))


Action: TypeAlias = HttpGet | TcpSocket | Exec | GrpcHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """An action to check the application with, and the seconds that one check may take."""

    action: Action
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, error=ProbeConfigError)
        if not (math.isfinite(self.timeout_s) and self.timeout_s > 0):
            raise ValueError(f"timeout_s is {self.timeout_s}, a positive number is needed")


def _raise_first(problems: Iterator[str]) -> None:
    for problem in problems:
        raise ValueError(problem)


def _problems_of_http(action: HttpGet) -> Iterator[str]:
    yield from _problems_of_address(action.host, action.port)
    yield from _problems_of_text("path", action.path)
    if action.scheme not in ("http", "https"):
        yield f"scheme is {action.scheme!r}, 'http' or 'https' is needed"
    if action.http2 and action.scheme != "https":
        yield "http2 is offered in the TLS handshake, so it needs the scheme https"
    for name, value in action.headers:
        if problem := header_problem(name, value):
            yield problem


def _problems_of_address(host: str, port: int) -> Iterator[str]:
    if not 1 <= port <= HIGHEST_PORT:
        yield f"port is {port}, a number from 1 to {HIGHEST_PORT} is needed"
    if problem := host_problem(host):
        yield f"host {problem}"


def _problems_of_command(command: tuple[str, ...]) -> Iterator[str]:
    if not command or not command[0]:
        yield "command is empty, a program is needed"
    for word in command:
        if "\0" in word:
            yield f"command holds {word!r}, in which a NUL is"
        yield from _problems_of_text("command", word)


def _problems_of_text(name: str, text: str) -> Iterator[str]:
    if problem := text_problem(text):
        yield f"{name} {problem}"


def host_problem(host: str) -> str | None:
    """Return what is wrong with the name or address of a host, or None."""
    if _HOST_BAD.search(host):
        return f"is {host!r}, a name or an address is needed"
    return text_problem(host)


def header_problem(name: str, value: str) -> str | None:
    """Return what is wrong with a header of a request, or None."""
    if not _TOKEN.fullmatch(name) and name.lower() != ":authority":
        return f"a header is named {name!r}, which is no name of a header"
    if _VALUE_BAD.search(value) or (problem := text_problem(value)):
        return f"header {name} is {value!r}, which no header can hold"
    return problem


def text_problem(text: str) -> str | None:
    """Return what is wrong with a text that is to be sent, or None."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"is {text!r}, which holds half a character"
    return None
