"""The delays between retries, as a pure iterator.

The caller's loop decides which failures are retried; this module decides when.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from mesh_lifecycle._field_types import check_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential delays with a maximum and jitter.

    initial_s: the first delay, before the jitter.
    maximum_s: no delay is longer than this, jitter included.
    multiplier: each delay is this many times the one before.
    jitter: a delay d becomes a random value in [d * (1 - jitter), d * (1 + jitter)].
    """

    initial_s: float = 0.5
    maximum_s: float = 60.0
    multiplier: float = 1.5
    jitter: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.initial_s <= self.maximum_s:
            raise ValueError(
                "backoff needs 0 < initial_s <= maximum_s, "
                f"got {self.initial_s} and {self.maximum_s}"
            )
        if self.multiplier < 1 or not 0 <= self.jitter < 1:
            raise ValueError(
                "backoff needs multiplier >= 1 and 0 <= jitter < 1, "
                f"got {self.multiplier} and {self.jitter}"
            )

    def delays(self, rng: random.Random | None = None) -> Iterator[float]:
        """Yield delays in seconds for ever; start a new iterator after a success."""
        spread = rng or random.Random()
        base = self.initial_s
        while True:
            factor = 1 + self.jitter * (2 * spread.random() - 1)
            yield min(base * factor, self.maximum_s)
            base = min(base * self.multiplier, self.maximum_s)
