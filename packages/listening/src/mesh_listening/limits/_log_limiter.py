"""What happens again and again, told when it begins and not each time."""

from collections.abc import Callable

_MOST_SUBJECTS = 1000


class LogLimiter:
    """Knows what goes on. An episode of a subject is over when it was quiet for `quiet_s`.

    Of subjects that others choose the names of, a thousand are told apart.
    """

    def __init__(self, *, quiet_s: float, now: Callable[[], float]) -> None:
        """now: seconds that never go back."""
        self._quiet_s = quiet_s
        self._now = now
        self._last: dict[str, float] = {}  # the one that was quiet for longest first

    def begins(self, subject: str) -> bool:
        """Note that it happened once more; whether that begins an episode, to be told of."""
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
