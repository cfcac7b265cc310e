"""What can go wrong, one root for all of it."""

from __future__ import annotations

import grpc


class XdsServerError(Exception):
    """Root of every error this package raises for its caller to handle."""


class ListenError(XdsServerError):
    """A listener could not be opened; the message says which address and what would be right."""


class Refused(XdsServerError):
    """Raised by an `Admit`: the stream ends with this status and this message."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StreamRefused(Refused):
    """A client broke the protocol in a way that ends its stream, and only its stream."""


class BadRequest(StreamRefused):
    """A request that is over a limit or no discovery request, or none where one is due."""


class NotRead(StreamRefused):
    """A client did not read what it was sent, so that it cannot be told why it is closed."""
