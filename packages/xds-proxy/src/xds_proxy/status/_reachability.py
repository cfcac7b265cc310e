"""Whether the control plane can be reached; each change is logged once.

While it cannot be reached, the relay tries again about every second. The log has one line when
that begins, another when the reason changes, and one when the control plane answers again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

import grpc

from xds_proxy.status._counters import Counters

log = logging.getLogger("xds_proxy")

_ORDINARY_ENDS = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
    }
)


class Reachability:
    """Whether the control plane can be reached, as the leading stream finds it.

    The end of every stream is counted. Only the leading stream's changes the state and is logged:
    a control plane that one of two streams cannot reach is out of reach for both.

    The control plane counts as connected from its first answer on: after the TLS handshake it may
    still refuse the token.
    """

    def __init__(self, address: str, *, counters: Counters, now: Callable[[], datetime]) -> None:
        self._address = address
        self._counters = counters
        self._now = now
        self.connected = False
        self.since = now()
        self.last_error: str | None = None
        self._has_answered_before = False

    def answered(self) -> None:
        """The control plane sent a response on the leading stream."""
        if self.connected:
            return
        facts: dict[str, object] = {"address": self._address}
        message = "connected to the control plane"
        if self.last_error is not None:
            if self._has_answered_before:
                message = "connected to the control plane again"
            facts["after_s"] = round((self._now() - self.since).total_seconds(), 1)
        log.info(message, extra=facts)
        self._has_answered_before = True
        self.last_error = None
        self._change(connected=True)

    def failed(self, reason: str, *, leading: bool) -> None:
        """A stream ended before the control plane's first answer."""
        self._counters.connection_failures += 1
        if not leading:
            return
        if reason != self.last_error:
            log.warning(
                "cannot reach the control plane",
                extra={"address": self._address, "reason": reason, "next": "trying again"},
            )
        self.last_error = reason
        self._change(connected=False)

    def ended(self, code: grpc.StatusCode, details: str, *, leading: bool) -> None:
        """The control plane, or the connection to it, ended a stream after its first answer."""
        facts = {"address": self._address, "status": code.name, "reason": details}
        ordinary = code in _ORDINARY_ENDS
        if ordinary:
            self._counters.control_plane_ended += 1
        else:
            self._counters.control_plane_failed += 1
        if not leading:
            return
        if ordinary:
            log.info("the control plane ended the stream", extra=facts)
        else:
            log.warning("the control plane ended the stream with an error", extra=facts)
            self.last_error = f"{code.name}: {details}" if details else code.name
        self._change(connected=False)

    def not_reading(self, reason: str, *, leading: bool) -> None:
        """The relay ended a stream because the control plane does not read its requests."""
        self._counters.control_plane_not_reading += 1
        if not leading:
            return
        if reason != self.last_error:
            log.warning(
                "the control plane does not read, its stream is ended",
                extra={"address": self._address, "reason": reason},
            )
        self.last_error = reason
        self._change(connected=False)

    def no_answer_yet(self) -> None:
        """The leading stream is new, or was ended by Envoy or the relay: no error of either."""
        self._change(connected=False)

    def _change(self, *, connected: bool) -> None:
        if connected is not self.connected:
            self.connected = connected
            self.since = self._now()
