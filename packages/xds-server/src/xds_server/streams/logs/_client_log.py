"""The log lines of clients that connect and disconnect.

A client that is accepted, disconnects and is back at once, again and again, would fill the log with
two lines a time. Its first streams have their lines; then it is logged as `RepeatLog` does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from mesh_lifecycle import Clock, RepeatLog

_SHORT_S = 180.0
"""A stream that lasts as long is no short one, and a client that is away as long is not back at
once: longer than clients wait between attempts, which may be a minute and more."""
_LOGGED_STREAMS = 3
"""Short streams of a client, one after the other, that have lines: it may have been restarted."""
_MOST_SUBJECTS = 10_000
"""Clients that are distinguished; they choose their nodes' names, and each takes memory."""


class LoggedStream(NamedTuple):
    """A stream whose beginning was noted."""

    subject: str
    began: float
    is_logged: bool
    """Whether its beginning has a line."""


class _ShortStreams(NamedTuple):
    """How many short streams a client has had one after the other, and when the last ended."""

    times: int
    ended: float


class ClientLog:
    """Logs that clients connect and disconnect, and which of them do so again and again."""

    def __init__(self, log: logging.Logger, *, clock: Clock) -> None:
        self._log = log
        self._now = clock.monotonic
        self._reconnecting = RepeatLog(
            log, "client reconnecting", level=logging.INFO, quiet_s=_SHORT_S, now=clock.monotonic
        )
        self._short: dict[str, _ShortStreams] = {}
        """By client; the one whose last stream ended the longest ago first."""

    def on_connect(self, subject: str, facts: Mapping[str, object]) -> LoggedStream:
        """Note a stream, and log it if it is no repeat. subject: what its client is known by."""
        now = self._now()
        short = self._short.get(subject)
        is_logged = short is None or short.times < _LOGGED_STREAMS or _is_over(short, now)
        if is_logged:
            self._reconnecting.ended(subject)
            self._log.info("client connected", extra=facts)
        else:
            self._reconnecting.happened(subject, facts=facts)
        return LoggedStream(subject, now, is_logged)

    def on_disconnect(self, stream: LoggedStream, facts: Mapping[str, object]) -> None:
        """Note the end of a stream, and log it if its beginning was logged, or is long ago."""
        now = self._now()
        is_short = now - stream.began < _SHORT_S
        level = logging.INFO if stream.is_logged or not is_short else logging.DEBUG
        self._log.log(level, "client disconnected", extra=facts)
        known = self._short.pop(stream.subject, None)
        if is_short:
            times = 0 if known is None or _is_over(known, now) else known.times
            self._short[stream.subject] = _ShortStreams(times + 1, now)
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._short:
            subject, oldest = next(iter(self._short.items()))
            if len(self._short) <= _MOST_SUBJECTS and not _is_over(oldest, now):
                return
            del self._short[subject]


def _is_over(short: _ShortStreams, now: float) -> bool:
    return now - short.ended >= _SHORT_S
