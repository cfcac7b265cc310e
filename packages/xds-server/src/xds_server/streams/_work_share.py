"""The part of the event loop's time that one holder's requests may take while others come.

A request with a hundred thousand names is read and answered in one go, and meanwhile no other
client is served; one that comes needs the loop a dozen times before it has its first answer. So a
holder whose large requests have taken more than their share waits with the next one, for a multiple
of the time they took. It waits for nothing while no other holder asks for anything, as when one
deployment of a thousand replicas comes back.
"""

from __future__ import annotations

from mesh_lifecycle import Clock

FREE_S = 0.5
"""A holder's requests may take as much at once."""

LARGE_BYTES = 16 * 1024
"""Smaller requests never wait: most are acknowledgements, and no single one takes long."""

_PART = 1 / 3
"""Of the loop's time, that one holder may have while others come."""
_LONGEST_WAIT_S = 10.0
_OTHERS_CAME_WITHIN_S = 5.0
_MOST_HOLDERS = 1000


class WorkShare:
    """The time that each holder's requests have taken of late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # How much of its time each holder has had; as it was at a time.
        self._had: dict[str, tuple[float, float]] = {}
        self._last = ("", -_OTHERS_CAME_WITHIN_S)
        self._last_other = ("", -_OTHERS_CAME_WITHIN_S)

    async def wait(self, holder: str) -> None:
        """Wait until it is this holder's turn; the caller then works without waiting for more."""
        self.on_request(holder)
        while (wait_s := self._wait_s(holder)) > 0:
            await self._clock.sleep(wait_s)

    def count_work(self, holder: str, seconds: float) -> None:
        """Count the seconds that a holder's request took."""
        if len(self._had) >= _MOST_HOLDERS and holder not in self._had:
            self._forget()
        self._had[holder] = (self._left(holder) + seconds, self._clock.monotonic())

    def _wait_s(self, holder: str) -> float:
        too_much = self._left(holder) - FREE_S
        if too_much <= 0 or not self._others_came(holder):
            return 0.0
        return min(too_much / _PART, _LONGEST_WAIT_S)

    def _left(self, holder: str) -> float:
        had, at = self._had.get(holder, (0.0, 0.0))
        return max(0.0, had - _PART * (self._clock.monotonic() - at)) if had else 0.0

    def on_request(self, holder: str) -> None:
        """Take note that a holder asks for something."""
        if self._last[0] != holder:
            self._last_other = self._last
        self._last = (holder, self._clock.monotonic())

    def _others_came(self, holder: str) -> bool:
        name, at = self._last if self._last[0] != holder else self._last_other
        return bool(name) and self._clock.monotonic() - at < _OTHERS_CAME_WITHIN_S

    def _forget(self) -> None:
        self._had = {each: had for each, had in self._had.items() if self._left(each) > 0}
        if len(self._had) >= _MOST_HOLDERS:
            self._had.clear()
