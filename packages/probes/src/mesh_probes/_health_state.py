"""Health from a row of outcomes: a change is reported after enough of one kind in a row."""

from dataclasses import dataclass

from mesh_lifecycle import check_fields
from mesh_probes._errors import ProbeConfigError
from mesh_probes._outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When an application is checked, and how many outcomes make a verdict.

    initial_delay_s: seconds before the first check.
    period_s: seconds from the start of a check to the start of the next.
    success, failure: how many outcomes of the kind in a row are needed, at least 1.
    Raises `ValueError` for bad fields.
    """

    initial_delay_s: float = 0
    period_s: float = 10
    success: int = 1
    failure: int = 1

    def __post_init__(self) -> None:
        check_fields(self, error=ProbeConfigError)
        if not (self.initial_delay_s >= 0 and self.period_s > 0):
            raise ValueError(
                f"initial_delay_s is {self.initial_delay_s} and period_s {self.period_s}:"
                " the delay must not be negative, the period must be positive"
            )
        if min(self.success, self.failure) < 1:
            raise ValueError(
                f"success is {self.success} and failure {self.failure}, at least 1 is needed"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The health of an application from now on."""

    healthy: bool
    reason: str = ""
    """Of the outcome that decided it; "" if healthy."""


class HealthState:
    """Counts outcomes; does no I/O.

    A success sets the count of failures to zero, and a failure that of successes.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._healthy: bool | None = None
        self._latest: bool | None = None
        self._in_a_row = 0

    @property
    def healthy(self) -> bool | None:
        """The latest verdict; None before the first."""
        return self._healthy

    def record(self, outcome: Outcome) -> Verdict | None:
        """Return the verdict if this outcome changes it; the first verdict is always a change."""
        if outcome.healthy != self._latest:
            self._latest, self._in_a_row = outcome.healthy, 0
        self._in_a_row += 1
        needed = self._thresholds.success if outcome.healthy else self._thresholds.failure
        if self._in_a_row < needed or self._healthy == outcome.healthy:
            return None
        self._healthy = outcome.healthy
        return Verdict(healthy=outcome.healthy, reason="" if outcome.healthy else outcome.reason)
