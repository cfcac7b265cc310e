"""Logs an event that happens again and again by the rule of `Repeats`."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mesh_lifecycle.logs._repeats import Line, Phase, Repeats
from mesh_lifecycle.logs._shown_fields import shows_fields

_QUIET_S = 180.0
"""Longer than callers wait between attempts, which may be a minute and more."""


class RepeatLog:
    """Logs one message: its first time, the number of its repeats, and its end.

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
        it has not happened for quiet_s (infinity: when the caller says so). now: seconds of a clock
        that never goes back.
        """
        self._log = log
        self._messages = {
            Phase.BEGINS: (level, message),
            Phase.REPEATS: (level, f"{message}, repeatedly"),
            Phase.ENDS: (min(level, logging.INFO), f"{message}, no longer"),
        }
        self._now = now
        self._repeats = Repeats(quiet_s=quiet_s)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def happened(
        self,
        subject: str,
        *,
        reason: str = "",
        facts: Mapping[str, object] | None = None,
        fault: BaseException | None = None,
    ) -> None:
        """Note that it happened to a subject, and log it if it is not a repeat.

        A subject that has another reason, not in its numbers only, is no repeat. Each repeat is at
        level DEBUG. The subject is what identifies a caller, such as its address or identity, and
        not what it chooses anew each time.

        facts: of the line, beside `reason`.
        fault: its traceback goes with the first line.
        """
        fields = dict(facts or {})
        if reason:
            fields["reason"] = reason
        lines = self._repeats.happened(subject, reason, fields, now=self._now())
        self._write(lines, fault=fault)
        if not any(line.phase is Phase.BEGINS for line in lines):
            self._log.debug(self._messages[Phase.BEGINS][1], extra=fields)

    def ended(self, subject: str, *, silently: bool = False) -> None:
        """Note that it is over for a subject, whatever the reason was.

        silently: the caller has a line of its own for it.
        """
        lines = self._repeats.ended(subject, now=self._now())
        self._write(() if silently else lines)

    def settle(self) -> None:
        """Write the lines that are due."""
        self._write(self._repeats.settled(now=self._now()))

    def _write(self, lines: Iterable[Line], *, fault: BaseException | None = None) -> None:
        for line in lines:
            level, message = self._messages[line.phase]
            traceback = fault if line.phase is Phase.BEGINS else None
            reason = line.facts.get("reason")
            if reason and not shows_fields(self._log):
                message = f"{message}: {reason}"
            self._log.log(level, message, extra=dict(line.facts), exc_info=traceback)
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
