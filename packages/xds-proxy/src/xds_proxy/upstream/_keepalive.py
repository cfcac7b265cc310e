"""How often a quiet connection to a control plane is asked for a sign of life (HTTP/2 pings).

A gRPC server takes at most one ping in five minutes unless it is configured otherwise, and ends the
connection of a client that sends more of them. A client is to send them half as often then
(https://github.com/grpc/proposal/blob/master/A8-client-side-keepalive.md). gRPC does so for the
connections of one channel, and each of the relay's streams has a channel of its own.
"""

from __future__ import annotations

import logging

import grpc

log = logging.getLogger("xds_proxy")

_LONGEST_S = 3600.0
_TOO_MANY = "too many pings"
"""What gRPC says of the end of such a connection. Its status is that of any connection that was
lost, and nothing but the text distinguishes them."""


class Keepalive:
    """The interval between pings on the connections to one address."""

    def __init__(self, address: str, interval_s: float) -> None:
        self._address = address
        self.interval_s = interval_s

    def on_end(self, code: grpc.StatusCode, details: str, *, interval_s: float) -> None:
        """A stream has ended with this status. interval_s: of its connection."""
        said = details.replace("_", " ").lower()
        if code is not grpc.StatusCode.UNAVAILABLE or _TOO_MANY not in said:
            return
        # Several connections may end for it at a time.
        longer_s = min(2 * interval_s, max(_LONGEST_S, interval_s))
        if longer_s > self.interval_s:
            self.interval_s = longer_s
            facts = {"address": self._address, "interval_s": longer_s}
            log.debug("the control plane is asked for signs of life less often", extra=facts)
