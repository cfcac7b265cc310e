"""The totals for metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from wasm_modules._errors import FetchResult

DURATION_BUCKETS_MS: Final = tuple(float(2**power) for power in range(15))
"""1 ms to 16384 ms, each twice the one before."""


class Conversion(StrEnum):
    """How the rewrite of a resource ended, as `wasm_config_conversion_count` has it."""

    SUCCESS = "success"
    NO_REMOTE_LOAD = "no_remote_load"
    UNMARSHAL_FAILURE = "unmarshal_failure"
    FETCH_FAILURE = "fetch_failure"
    MISS_REMOTE_FETCH_HINT = "miss_remote_fetch_hint"


@dataclass(slots=True)
class Durations:
    """A histogram of milliseconds.

    buckets: how many were at most as long as the bound of the same place in DURATION_BUCKETS_MS,
        and longer than the one before; the last: longer than all.
    """

    buckets: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BUCKETS_MS) + 1))
    sum_ms: float = 0.0

    def observe(self, milliseconds: float) -> None:
        """Count one."""
        place = next(
            (i for i, bound in enumerate(DURATION_BUCKETS_MS) if milliseconds <= bound),
            len(DURATION_BUCKETS_MS),
        )
        self.buckets[place] += 1
        self.sum_ms += milliseconds


@dataclass(slots=True)
class Counters:
    """Totals since the start.

    entries: the modules in the cache now.
    hits, misses: requests whose module was in the cache; those that needed a fetch, of their own or
        one that was under way.
    """

    entries: int = 0
    hits: int = 0
    misses: int = 0
    fetches: dict[FetchResult, int] = field(default_factory=dict)
    conversions: dict[Conversion, int] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations)

    def on_fetch(self, result: FetchResult) -> None:
        """Count a fetch."""
        self.fetches[result] = self.fetches.get(result, 0) + 1

    def on_conversion(self, result: Conversion, milliseconds: float) -> None:
        """Count the rewrite of a resource."""
        self.conversions[result] = self.conversions.get(result, 0) + 1
        self.durations.observe(milliseconds)
