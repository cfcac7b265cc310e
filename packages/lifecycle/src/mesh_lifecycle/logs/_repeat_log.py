"""Logs an event that happens again and again by the rule of `Repeats`."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mesh_lifecycle.logs._repeats import Line, Repeats, Told

_QUIET_S = 180.0
"""Longer than callers wait between attempts, which may be a minute and more."""


class RepeatLog:
    """Logs one message: its first time, its repeats by their number, and its end.

    Lines that are due while nothing happens are written by a timer of the running event loop;
    without a loop they are written with the next event.
    """

    def __init__(
        self,
        log: logging.Logger,
        message: str,
        *,
        level: int = logging.WARNING,
        quiet_s: float = _QUIET_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """message: constant. It is logged as such when the event begins, with `, repeatedly`
        while it goes on, at intervals of a minute to an hour, and with `, no longer` at INFO when
        it has not happened for quiet_s. now: seconds of a clock that never goes back.
        """
        self._log = log
        self._messages = {
            Told.BEGINS: (level, message),
            Told.REPEATS: (level, f"{message}, repeatedly"),
            Told.ENDS: (min(level, logging.INFO), f"{message}, no longer"),
        }
        self._now = now
        self._repeats = Repeats(quiet_s=quiet_s)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def happened(
        self, subject: str, *, reason: str = "", facts: Mapping[str, object] | None = None
    ) -> None:
        """Note that it happened to a subject, and log it if it is not a repeat.

        A subject that has another reason is no repeat. Of what others choose, only the subject
        should be what identifies them: an address, an identity.

        facts: of the line, beside `reason`.
        """
        told = dict(facts or {})
        if reason:
            told["reason"] = reason
        self._write(self._repeats.happened(subject, reason, told, now=self._now()))

    def ended(self, subject: str) -> None:
        """Note that it is over for a subject, whatever the reason was."""
        self._write(self._repeats.ended(subject, now=self._now()))

    def settle(self) -> None:
        """Write the lines that are due."""
        self._write(self._repeats.settled(now=self._now()))

    def _write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            level, message = self._messages[line.told]
            self._log.log(level, message, extra=dict(line.facts))
        self._set_timer()

    def _set_timer(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._timer is not None and self._loop is loop:
            return  # it looks again when it is due; lines only ever come later
        at = self._repeats.next_at()
        if at != float("inf"):
            self._loop = loop
            self._timer = loop.call_later(max(1.0, at - self._now()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.settle()
