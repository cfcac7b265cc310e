"""Logs an event that happens again and again when that begins, or now and then, not each time."""

from collections.abc import Callable
from dataclasses import dataclass

_MOST_SUBJECTS = 1000


@dataclass(slots=True)
class _Event:
    """An event that goes on. count: how often it happened since it was last to be logged."""

    last: float
    logged: float
    count: int = 0


class LogLimiter:
    """Remembers which events go on. One is over when it did not happen for `quiet_s`.

    At most a thousand subjects are told apart, as clients may choose their names.
    """

    def __init__(self, *, quiet_s: float, now: Callable[[], float]) -> None:
        """now: returns seconds of a clock that never goes back."""
        self._quiet_s = quiet_s
        self._now = now
        self._events: dict[str, _Event] = {}  # the one that happened the longest ago first

    def begins(self, subject: str) -> bool:
        """Note that the event happened; returns whether it begins with that and is to be logged."""
        known, _ = self._note(subject)
        return not known

    def due(self, subject: str, *, every_s: float) -> int:
        """Note that the event happened; returns how often since it was last to be logged.

        0 if it is not to be logged now: that is when it begins, and once in `every_s` while it goes
        on.
        """
        known, event = self._note(subject)
        event.count += 1
        if known and event.last - event.logged < every_s:
            return 0
        count, event.count = event.count, 0
        event.logged = event.last
        return count

    def _note(self, subject: str) -> tuple[bool, _Event]:
        """Return whether the event went on before, and the event."""
        now = self._now()
        self._forget_quiet(now)
        if subject not in self._events and len(self._events) >= _MOST_SUBJECTS:
            subject = ""
        event = self._events.pop(subject, None)
        known = event is not None
        if event is None:
            event = _Event(last=now, logged=now)
        event.last = now
        self._events[subject] = event
        return known, event

    def _forget_quiet(self, now: float) -> None:
        while self._events:
            subject, event = next(iter(self._events.items()))
            if now - event.last < self._quiet_s:
                return
            del self._events[subject]
