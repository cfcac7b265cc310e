"""When a certificate is renewed, when a failed attempt is repeated, and how long each may take.

Pure functions of the time. The wall clock gives the age of a certificate, and may jump; the
monotonic clock spaces the attempts.
"""

import random
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

OUTAGE_RETRY_S = 3.0
"""The longest delay after an unavailable authority while there is no valid certificate, so that the
workload is back soon after the authority is."""

REFUSED_RETRY_S = 30.0
"""The longest delay after a refusal while there is no valid certificate. The authority goes on to
refuse until something is corrected: a new token or root is a file that is tried at once
(`depends_on`), and after a clock or a rule of the authority half a minute is no long wait."""

_OUTAGE_JITTER = 0.4  # so that workloads whose certificates ended together don't ask in step

CLOCK_SET_BACK_S = 60.0
"""A wall clock this far before the moment of issue was set back. The certificate's times mean
nothing on such a clock."""

CLOCK_STEP_S = 2.0
"""A difference by which the wall clock has run ahead of or behind the monotonic clock that means
that it was set, or that the machine was asleep."""

_RENEWAL_SPACING_S = 1.0
_REQUESTED_SPACING_S = 1.0
_SHORTEST_RETRY_S = 0.25
_SHORTEST_TIMEOUT_S = 2.0
"""Long enough for the quick retries of an authority's client, and for finding out the reason."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The times that decide when the next attempt starts.

    issued_at, renew_at: wall-clock seconds of the current certificate; None without one.
    scheduled_after: monotonic; no scheduled attempt starts before it.
    requested_after: monotonic; no attempt that a caller requests starts before it.
    """

    issued_at: float | None = None
    renew_at: float | None = None
    scheduled_after: float = float("-inf")
    requested_after: float = float("-inf")


def renewal_time(
    issued: datetime,
    expires: datetime,
    ratio: float,
    jitter: float,
    rng: random.Random,
) -> datetime:
    """Return when to renew: the time at which `ratio` of the lifetime is left, plus or minus
    `jitter`.

    ratio 0.25 of one hour is 45 minutes after issue. The ratio stays within 0 and 1 whatever the
    jitter, so the result lies between issue and expiry. A time in the past means now.
    """
    sign = rng.choice((-1, 1))
    jittered = min(1.0, max(0.0, ratio + sign * rng.random() * jitter))
    return expires - jittered * max(expires - issued, timedelta())


def after_success(*, now: float, monotonic: float, renews_at: datetime) -> Schedule:
    """Return the schedule of a certificate that has just been issued.

    A scheduled renewal starts at least a second later, even if the certificate is short-lived
    enough to be due at once. A renewal that a caller requests may start immediately.
    """
    return Schedule(
        issued_at=now,
        renew_at=renews_at.timestamp(),
        scheduled_after=monotonic + _RENEWAL_SPACING_S,
    )


def after_taking_up(*, now: float, renews_at: datetime) -> Schedule:
    """Return the schedule of a certificate that was issued to an earlier run of the program.

    A renewal that is due starts at once.
    """
    return Schedule(issued_at=now, renew_at=renews_at.timestamp())


def after_failure(schedule: Schedule, *, monotonic: float, delay_s: float) -> Schedule:
    """Return the schedule after a failed attempt, with the delay that `retry_delay` gave.

    An attempt that a caller requests waits for the delay too, but for no longer than a second.
    """
    return replace(
        schedule,
        scheduled_after=monotonic + delay_s,
        requested_after=monotonic + min(delay_s, _REQUESTED_SPACING_S),
    )


def after_expiry(schedule: Schedule) -> Schedule:
    """Return the schedule without a certificate; the delay after a failure still applies."""
    return replace(schedule, issued_at=None, renew_at=None)


def after_clock_step(schedule: Schedule) -> Schedule:
    """Return the schedule without the delay of a scheduled attempt, because it was measured
    before.
    """
    return replace(schedule, scheduled_after=float("-inf"))


def seconds_until_due(
    schedule: Schedule, *, now: float, monotonic: float, requested: bool
) -> float:
    """Return how long until an attempt should start; 0 is now."""
    if requested:
        return max(0.0, schedule.requested_after - monotonic)
    delay = schedule.scheduled_after - monotonic
    if schedule.renew_at is None or schedule.issued_at is None:
        return max(0.0, delay)
    if now < schedule.issued_at - CLOCK_SET_BACK_S:
        return max(0.0, delay)
    return max(0.0, delay, schedule.renew_at - now)


def retry_delay(backoff_s: float, *, remaining_s: float, refused: bool, spread: float) -> float:
    """Return the delay before the next attempt: the backoff's, shortened near the certificate's
    end.

    While there is a certificate, the delay is at most a quarter of its remaining life, so that
    there are several attempts before it ends; it is not shortened below a quarter of a second.
    Without one the workload is cut off, and the delay is at most OUTAGE_RETRY_S or REFUSED_RETRY_S.

    spread: 0 to 1 at random; shortens that last bound by up to four tenths.
    """
    if remaining_s > 0:
        return min(backoff_s, max(_SHORTEST_RETRY_S, remaining_s / 4))
    bound_s = REFUSED_RETRY_S if refused else OUTAGE_RETRY_S
    return min(backoff_s, bound_s * (1 - _OUTAGE_JITTER * spread))


def answer_timeout(maximum_s: float, *, remaining_s: float) -> float:
    """Return how long one attempt may take: at most a third of the certificate's remaining life."""
    if remaining_s <= 0:
        return maximum_s
    return min(maximum_s, max(_SHORTEST_TIMEOUT_S, remaining_s / 3))
