"""The errors of this package, with one root."""

from __future__ import annotations

import grpc


class XdsServerError(Exception):
    """Root of every error this package raises for its caller to handle."""


class ListenError(XdsServerError):
    """A listener could not be opened; the message says which address and what would be right."""


class Refused(XdsServerError):
    """Raised by an `Admit`: the stream ends with this status and this message.

    logged_reason: for the log of the server, where it may say more than the client may know.
    """

    def __init__(
        self, code: grpc.StatusCode, message: str, *, logged_reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.logged_reason = message if logged_reason is None else logged_reason


class StreamRefused(Refused):
    """The server ends one stream, with the reason; the others go on."""


class BadRequest(StreamRefused):
    """A request over a limit, or no discovery request; or a stream that ended without one."""


class NotRead(StreamRefused):
    """A client did not read its responses, so the reason for ending its stream cannot reach it."""
