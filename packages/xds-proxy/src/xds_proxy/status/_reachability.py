"""Whether the control plane can be reached; each change is logged once.

While it cannot be reached, the relay tries again and again. The log has one line when that begins,
another when the reason changes, how often it was tried now and then, and one line when the control
plane answers again. Control planes end
streams in the ordinary run of things, and the next one is answered within a moment: that is no
change.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import datetime, timedelta

import grpc

from mesh_lifecycle import RepeatLog
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


_MOMENT = timedelta(seconds=1.5)
"""A control plane that answers again within this has been connected all along."""


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
        self._connected = False
        self._since = now()
        self._lost_at: datetime | None = None
        """When the last stream with an answer ended; None while there is one."""
        self._reason: str | None = None
        self._failures: dict[str, RepeatLog] = {}
        """By their message; they are over when the control plane answers."""
        self._logged = False
        self._has_answered_before = False

    @property
    def connected(self) -> bool:
        """Whether it answers, or did a moment ago."""
        self._settle()
        return self._connected

    @property
    def since(self) -> datetime:
        """When `connected` became what it is."""
        self._settle()
        return self._since

    @property
    def last_error(self) -> str | None:
        """Why it is not connected; None while it is."""
        self._settle()
        return None if self._connected else self._reason

    def on_answer(self) -> None:
        """The control plane sent a response on the leading stream."""
        self._settle()
        self._lost_at = None
        self._reason = None
        if self._connected and not self._logged:
            return
        facts: dict[str, object] = {"address": self._address}
        message = "connected to the control plane"
        if self._logged:
            if self._has_answered_before:
                message = "connected to the control plane again"
            facts["after_s"] = round((self._now() - self._since).total_seconds(), 1)
        log.info(message, extra=facts)
        self._has_answered_before = True
        self._logged = False
        for failures in self._failures.values():
            failures.ended(self._address, silently=True)
        self._change(connected=True, at=self._now())

    def on_failure(self, reason: str, *, leading: bool) -> None:
        """A stream ended before the control plane's first answer."""
        self._counters.connection_failures += 1
        self._fails(reason, "cannot reach the control plane", leading=leading)

    def on_end(self, code: grpc.StatusCode, details: str, *, leading: bool) -> None:
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
            self._lose()
        else:
            self._lose()
            reason = f"{code.name}: {details}" if details else code.name
            message = "the control plane ended the stream with an error"
            self._fails(reason, message, leading=True, at_once=True)

    def not_reading(self, reason: str, *, leading: bool) -> None:
        """The relay ended a stream that the control plane does not read."""
        self._counters.control_plane_not_reading += 1
        message = "the control plane does not read, its stream is ended"
        self._fails(reason, message, leading=leading, at_once=True)

    def on_malformed(self, reason: str, *, leading: bool) -> None:
        """The relay ended a stream for a response that it could not read."""
        self._counters.control_plane_failed += 1
        message = "the control plane sent a malformed response, its stream is ended"
        self._fails(reason, message, leading=leading, at_once=True)

    def beyond_limit(self, reason: str, *, leading: bool) -> None:
        """The relay ended a stream for a response that is larger than the relay takes."""
        self._counters.beyond_limit += 1
        message = "a response is beyond a limit of the relay, its stream is ended"
        self._fails(reason, message, leading=leading, at_once=True)

    def no_answer_yet(self) -> None:
        """The leading stream is new, or was ended by Envoy or the relay: no error of either."""
        self._lose()

    def _fails(self, reason: str, message: str, *, leading: bool, at_once: bool = False) -> None:
        if not leading:
            return
        self._settle()
        self._lose()
        self._reason = reason
        if self._connected and not at_once:
            return  # a control plane that restarts is not away before a moment has passed
        self._logged = True
        if message not in self._failures:
            self._failures[message] = RepeatLog(
                log, message, quiet_s=math.inf, now=lambda: self._now().timestamp()
            )
        facts = {"address": self._address, "next": "trying again"}
        self._failures[message].happened(self._address, reason=reason, facts=facts)

    def _lose(self) -> None:
        if self._lost_at is None:
            self._lost_at = self._now()

    def _settle(self) -> None:
        """Take the control plane for away if it has been for longer than a moment."""
        lost_at = self._lost_at
        if self._connected and lost_at is not None and self._now() - lost_at >= _MOMENT:
            self._change(connected=False, at=lost_at)

    def _change(self, *, connected: bool, at: datetime) -> None:
        if connected is not self._connected:
            self._connected = connected
            self._since = at
