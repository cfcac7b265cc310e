"""Whether the control plane answers, said once for each change.

It is tried again about every second while it is away; the log says so once, says it again only
when the reason changes, and says when it is over.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc

from mesh_lifecycle import Clock

log = logging.getLogger("xds_proxy")

_ORDINARY_ENDS = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
    }
)


@dataclass(slots=True, kw_only=True)
class Counters:
    """Totals since the relay started, for whoever turns them into metrics."""

    requests: int = 0
    """from Envoy to the control plane"""
    responses: int = 0
    """from the control plane, forwarded or taken by an interceptor"""
    connection_failures: int = 0
    """streams that ended before the control plane's first answer"""
    control_plane_ended: int = 0
    """streams that the control plane ended in an ordinary way"""
    control_plane_failed: int = 0
    """streams that the control plane, or the connection to it, ended with an error"""
    control_plane_not_reading: int = 0
    """streams ended because the control plane did not take what it was sent"""
    envoy_not_reading: int = 0
    """connections of Envoy's ended because it did not take what it was sent"""
    crowded_out: int = 0
    """streams of Envoy's ended because there were too many at once"""
    envoy_ended: int = 0
    """streams that Envoy ended"""
    refused: int = 0
    """responses that Envoy refused, or that an interceptor did"""
    dropped: int = 0
    """responses of a type that neither Envoy nor the agent understands"""


class Connection:
    """The state of the way to the control plane, kept over all streams.

    Every stream's end is counted; the leading one's alone is the state, and is logged: the control
    plane that one of two streams cannot reach is away for both.

    It counts as connected from the control plane's first answer on: a finished TLS handshake does
    not yet mean that the control plane took the token.
    """

    def __init__(self, address: str, *, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self.counters = Counters()
        self.connected = False
        self.since = self.now()
        self.last_error: str | None = None
        self._ever = False

    def now(self) -> datetime:
        """The time for everything that the status shows (UTC)."""
        return datetime.fromtimestamp(self._clock.now(), tz=UTC)

    def answered(self) -> None:
        """The control plane sent something."""
        if self.connected:
            return
        facts: dict[str, object] = {"address": self._address}
        message = "connected to the control plane"
        if self.last_error is not None:
            message = "connected to the control plane again" if self._ever else message
            facts["after_s"] = round((self.now() - self.since).total_seconds(), 1)
        log.info(message, extra=facts)
        self._ever = True
        self.last_error = None
        self._change(connected=True)

    def failed(self, reason: str, *, leads: bool) -> None:
        """A stream ended before the control plane's first answer."""
        self.counters.connection_failures += 1
        if not leads:
            return
        if reason != self.last_error:
            log.warning(
                "cannot reach the control plane",
                extra={"address": self._address, "reason": reason, "next": "trying again"},
            )
        self.last_error = reason
        self._change(connected=False)

    def lost(self, code: grpc.StatusCode, details: str, *, leads: bool) -> None:
        """The control plane, or the connection to it, ended a stream that had answers."""
        facts = {"address": self._address, "status": code.name, "reason": details}
        ordinary = code in _ORDINARY_ENDS
        if ordinary:
            self.counters.control_plane_ended += 1
        else:
            self.counters.control_plane_failed += 1
        if not leads:
            return
        if ordinary:
            log.info("the control plane ended the stream", extra=facts)
        else:
            log.warning("the control plane ended the stream with an error", extra=facts)
            self.last_error = f"{code.name}: {details}" if details else code.name
        self._change(connected=False)

    def not_reading(self, reason: str, *, leads: bool) -> None:
        """The control plane does not take what it is sent; the stream is ended for that."""
        self.counters.control_plane_not_reading += 1
        if not leads:
            return
        if reason != self.last_error:
            log.warning(
                "the control plane does not read, its stream is ended",
                extra={"address": self._address, "reason": reason},
            )
        self.last_error = reason
        self._change(connected=False)

    def released(self) -> None:
        """The leading stream has no answer any more, or not yet, and that is nobody's fault."""
        self._change(connected=False)

    def _change(self, *, connected: bool) -> None:
        if connected is not self.connected:
            self.connected = connected
            self.since = self.now()
