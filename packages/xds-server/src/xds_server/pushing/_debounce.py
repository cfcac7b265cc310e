"""Debouncing: many changes in a row become one push, when it is quiet or after a maximum time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from mesh_lifecycle import Clock
from xds_server.pushing._push_request import PushRequest


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one push: merged, how many they were, and when the first came."""

    request: PushRequest
    changes: int
    first_at: float


class Debounce:
    """The rule alone, without waiting: when the gathered changes are due."""

    def __init__(self, *, quiet_s: float, maximum_s: float) -> None:
        self._quiet_s = quiet_s
        self._maximum_s = maximum_s
        self._gathered: Gathered | None = None
        self._last_at = 0.0

    def add(self, request: PushRequest, *, now: float, quiet_since: float | None = None) -> None:
        """Gather one more change; it has been quiet since then already (None: since now)."""
        before = self._gathered
        changed_at = now if quiet_since is None else min(quiet_since, now)
        self._last_at = changed_at if before is None else max(self._last_at, changed_at)
        self._gathered = (
            Gathered(request=request, changes=1, first_at=now)
            if before is None
            else Gathered(
                request=before.request.merge(request),
                changes=before.changes + 1,
                first_at=before.first_at,
            )
        )

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the push is due; None if nothing was gathered."""
        if self._gathered is None:
            return None
        due_at = min(self._last_at + self._quiet_s, self._gathered.first_at + self._maximum_s)
        return max(0.0, due_at - now)

    @property
    def request(self) -> PushRequest | None:
        """The gathered changes as one request; None if there are none."""
        return None if self._gathered is None else self._gathered.request

    def pop(self) -> Gathered | None:
        """Return the gathered changes, and begin anew; None if there are none."""
        gathered, self._gathered = self._gathered, None
        return gathered


class Debouncer:
    """Runs the rule: changes go in at any time, and come out one push at a time."""

    def __init__(self, rule: Debounce, *, clock: Clock) -> None:
        self._rule = rule
        self._clock = clock
        self._changed = asyncio.Event()

    def add(self, request: PushRequest, *, quiet_since: float | None = None) -> None:
        """Gather one more change; it has been quiet since then already (None: since now)."""
        self._rule.add(request, now=self._clock.monotonic(), quiet_since=quiet_since)
        self._changed.set()

    @property
    def waiting(self) -> PushRequest | None:
        """The changes that were gathered and are not pushed yet."""
        return self._rule.request

    async def run(self, push: Callable[[Gathered], None]) -> None:
        """Push gathered changes when they are due, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while (due_in := self._rule.due_in(self._clock.monotonic())) is not None:
                if due_in > 0:
                    await self._clock.sleep(due_in)
                elif (gathered := self._rule.pop()) is not None:
                    push(gathered)
