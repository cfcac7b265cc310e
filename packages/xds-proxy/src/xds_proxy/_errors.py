"""What can go wrong in the relay, as a caller sees it."""

from __future__ import annotations

import grpc


class XdsProxyError(Exception):
    """Root of every error this package raises."""


class ConfigError(XdsProxyError):
    """A configuration value that can never work; names the field and what would be right."""


class SocketError(XdsProxyError):
    """Envoy's socket cannot be made at its path."""


class WireError(XdsProxyError):
    """Bytes that are not a discovery message, or one beyond the relay's bounds."""


class InterceptorRefused(XdsProxyError):
    """Raised by an interceptor that cannot use a response; its text becomes the NACK's message."""


class UpstreamError(XdsProxyError):
    """No stream to the control plane could be opened.

    `reason` is one sentence part in words, fit for a log line; `code` is what Envoy's stream ends
    with.
    """

    def __init__(self, reason: str, *, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
