"""Requests and the two kinds of answers, as values."""

import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeAlias

import msgspec

PLAIN_TEXT = "text/plain; charset=utf-8"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request; `peer` is the caller's IP address. Names of headers are in lower case."""

    method: str
    path: str
    peer: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def from_loopback(self) -> bool:
        """Whether the caller is on this machine."""
        return ipaddress.ip_address(self.peer.partition("%")[0]).is_loopback

    def header(self, name: str) -> str:
        """Returns the values of a header, joined by commas; name: in lower case."""
        return ", ".join(text for each, text in self.headers if each == name)


Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends a piece of a body; returns when the caller has room for the next."""


class Start(Protocol):
    """Sends the head of an answer, and returns what sends the pieces of its body."""

    async def __call__(
        self,
        *,
        content_type: str = PLAIN_TEXT,
        status: HTTPStatus | int = HTTPStatus.OK,
        headers: Mapping[str, str] = {},
    ) -> Send: ...


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is there as a whole."""

    status: HTTPStatus | int = HTTPStatus.OK
    body: bytes = b""
    content_type: str = PLAIN_TEXT
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> "Response":
        """Returns an answer of plain text."""
        return cls(status=status, body=text.encode())

    @classmethod
    def json(cls, value: object) -> "Response":
        """Returns a value as JSON; what JSON has no form for is shown as its `str`."""
        body = json.dumps(value, indent=2, default=str).encode() + b"\n"
        return cls(body=body, content_type="application/json")


class Streamed(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of unknown length.

    write: calls `start` once, and then sends the body piece by piece. If it raises before, the
    caller gets status 500; if it raises later, the connection ends, so that the caller knows.
    compress: gzip is used for callers that take it.
    """

    write: Callable[[Start], Awaitable[None]]
    compress: bool = False


Reply: TypeAlias = Response | Streamed
Handler: TypeAlias = Callable[[Request], Awaitable[Reply]]
