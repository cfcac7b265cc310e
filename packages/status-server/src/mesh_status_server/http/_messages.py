"""Requests and the two kinds of answers, as values."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeAlias

import msgspec

from mesh_listening import is_loopback, local_page_refusal

PLAIN_TEXT = "text/plain; charset=utf-8"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Names of headers are in lower case.

    peer, own_address: the IP addresses of the connection's two ends, the caller's and ours.
    """

    method: str
    path: str
    peer: str
    own_address: str = ""
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def from_loopback(self) -> bool:
        """Whether the caller is on this machine."""
        return is_loopback(self.peer)

    def local_page_refusal(self) -> "Response | None":
        """Return the answer of a page for this machine only to a caller that it is not for.

        That is one elsewhere, or a web page that a browser on this machine shows. None: it is for
        this caller.
        """
        reason = local_page_refusal(
            peer=self.peer, own_address=self.own_address, headers=self.headers
        )
        return None if reason is None else Response.text(f"{reason}\n", HTTPStatus.FORBIDDEN)

    def header(self, name: str) -> str:
        """Return the values of a header, joined by commas; name: in lower case."""
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
        """Return an answer of plain text."""
        return cls(status=status, body=text.encode())

    @classmethod
    def json(cls, value: object) -> "Response":
        """Return a value as JSON; what JSON has no form for is shown as its `str`."""
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
