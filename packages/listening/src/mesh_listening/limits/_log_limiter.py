"""Logs an event that happens again and again only when that begins, not each time."""

from collections.abc import Callable

_MOST_SUBJECTS = 1000


class LogLimiter:
    """Remembers which events go on. One is over when it did not happen for `quiet_s`.

    At most a thousand subjects are told apart, as clients may choose their names.
    """

    def __init__(self, *, quiet_s: float, now: Callable[[], float]) -> None:
        """now: returns seconds of a clock that never goes back."""
        self._quiet_s = quiet_s
        self._now = now
        self._last: dict[str, float] = {}  # the longest ago first

    def begins(self, subject: str) -> bool:
        """Note that the event happened; returns whether it begins with that and is to be logged."""
        now = self._now()
        self._forget_quiet(now)
        if subject not in self._last and len(self._last) >= _MOST_SUBJECTS:
            subject = ""
        begins = self._last.pop(subject, None) is None
        self._last[subject] = now
        return begins

    def _forget_quiet(self, now: float) -> None:
        while self._last:
            subject, last = next(iter(self._last.items()))
            if now - last < self._quiet_s:
                return
            del self._last[subject]
