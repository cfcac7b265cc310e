"""The error of a stream to the control plane that cannot be opened."""

from __future__ import annotations

import grpc

from xds_proxy._errors import XdsProxyError


class UpstreamError(XdsProxyError):
    """No stream to the control plane could be opened.

    `reason` is a part of a sentence, for a log line; `code` is the status that Envoy's stream gets.
    """

    def __init__(self, reason: str, *, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
