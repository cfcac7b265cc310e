"""How often something may happen: some at once, and so many a second after that."""


class Allowance:
    """A token bucket."""

    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, burst: int, *, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = float(burst)
        self._at = 0.0

    def has_one(self, now: float) -> bool:
        """Return whether one more is allowed at a time (monotonic seconds)."""
        if now > self._at:
            grown = self._left + (now - self._at) * self._per_second
            self._left, self._at = min(float(self._burst), grown), now
        return self._left >= 1

    def take(self, number: float = 1) -> None:
        """Use one up that `has_one` has found, or more: what is owed then is grown again first."""
        self._left -= number

    def is_full(self, now: float) -> bool:
        """Return whether it is as it was at first."""
        self.has_one(now)
        return self._left >= self._burst
