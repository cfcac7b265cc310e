"""When to renew, when to try again, how long to wait for an answer: pure functions of the time.

Wall-clock time says how old a certificate is, and may jump; monotonic time spaces the attempts.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

OUTAGE_RETRY_S = 3.0
"""With no valid certificate an authority that is away is asked at least this often, so that the
workload is back soon after the authority is."""

REFUSED_RETRY_S = 5.0
"""With no valid certificate an authority that says no is asked at least this often: what it said
no to (a token, a clock, a rule of its own) is being mended by somebody who waits for it."""

_OUTAGE_JITTER = 0.4  # a mesh whose certificates ended together does not ask in step

CLOCK_SET_BACK_S = 60.0
"""A wall clock this far before the moment of issue was set back: the certificate's times mean
nothing on it."""

CLOCK_STEP_S = 2.0
"""The wall clock gained or lost this much against the monotonic one: it was set, or the machine
was asleep."""

_RETRY_FLOOR_S = 0.25
_SHORTEST_ANSWER_S = (
    2.0  # the quick tries of an authority's client fit in, and so does their reason
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What decides when the next attempt starts.

    issued_at, renew_at: wall-clock seconds of the current certificate; None without one.
    scheduled_after: monotonic; no attempt of our own accord before it.
    asked_after: monotonic; no attempt that somebody asks for before it.
    """

    issued_at: float | None = None
    renew_at: float | None = None
    scheduled_after: float = float("-inf")
    asked_after: float = float("-inf")


def renewal_time(
    issued: datetime,
    expires: datetime,
    ratio: float,
    jitter: float,
    rng: random.Random,
) -> datetime:
    """Say when to renew: `ratio` of the lifetime is left then, give or take `jitter`.

    ratio 0.25 of one hour is 45 minutes after issue. The ratio stays within 0 and 1 whatever the
    jitter, so the answer lies between issue and expiry. A time in the past means now.
    """
    sign = rng.choice((-1, 1))
    jittered = min(1.0, max(0.0, ratio + sign * rng.random() * jitter))
    return expires - jittered * max(expires - issued, timedelta())


def seconds_until_due(schedule: Schedule, *, now: float, monotonic: float, asked: bool) -> float:
    """Say how long until an attempt should start; 0 is now."""
    if asked:
        return max(0.0, schedule.asked_after - monotonic)
    held = schedule.scheduled_after - monotonic
    if schedule.renew_at is None or schedule.issued_at is None:
        return max(0.0, held)
    if now < schedule.issued_at - CLOCK_SET_BACK_S:
        return max(0.0, held)
    return max(0.0, held, schedule.renew_at - now)


def retry_delay(drawn_s: float, *, remaining_s: float, refused: bool, spread: float) -> float:
    """Bound a delay drawn from the backoff by what is left of the current certificate.

    A quarter of the remaining life leaves several tries before it ends, however short it is. Once
    nothing is left, the workload is cut off, and seconds count.
    spread: 0 to 1 at random; takes up to four tenths off that last bound.
    """
    if remaining_s > 0:
        return min(drawn_s, max(_RETRY_FLOOR_S, remaining_s / 4))
    bound_s = REFUSED_RETRY_S if refused else OUTAGE_RETRY_S
    return min(drawn_s, bound_s * (1 - _OUTAGE_JITTER * spread))


def answer_timeout(maximum_s: float, *, remaining_s: float) -> float:
    """Say how long one attempt may take, so that a silent authority can't use up what is left."""
    if remaining_s <= 0:
        return maximum_s
    return min(maximum_s, max(_SHORTEST_ANSWER_S, remaining_s / 3))
