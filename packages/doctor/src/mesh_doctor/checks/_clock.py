"""Whether this machine's clock agrees with the control plane's."""

from collections.abc import Iterator
from datetime import UTC, datetime

from mesh_doctor._finding import Cause, Finding, ok, problem, skipped
from mesh_doctor._observed import Observed
from mesh_doctor.checks._words import span
from mesh_identity import Fault

CHECK = "clock"
_TOLERATED_S = 60.0
_FIX = "set the clock of the machine that is wrong, with a time service such as chrony"


def clock(seen: Observed) -> Iterator[Finding]:
    """Compare the clocks: by the answers' dates, else by what must lie in the past."""
    if seen.clocks:
        nearest = min(seen.clocks, key=lambda each: abs(each.ahead_s))
        if abs(nearest.ahead_s) <= _TOLERATED_S:
            yield ok(
                CHECK, f"within {max(1, round(abs(nearest.ahead_s)))} s of the control plane's"
            )
            return
        side = "behind" if nearest.ahead_s > 0 else "ahead of"
        yield problem(
            CHECK,
            Cause.CLOCK_SKEW,
            f"this machine's clock is {span(nearest.ahead_s)} {side} that of the control plane: "
            f"here it is {_shown(seen.now)}, there {_shown(seen.now + nearest.ahead_s)}",
            _FIX,
        )
        return
    hints = list(_from_the_future(seen))
    if not hints:
        yield skipped(
            CHECK,
            "no page of the control plane tells its time; the token and its "
            "certificate show no fault of this clock",
        )
        return
    behind_s = max(seconds for seconds, _ in hints)
    reasons = ", and ".join(reason for _, reason in hints)
    yield problem(
        CHECK,
        Cause.CLOCK_SKEW,
        f"this machine's clock is {span(behind_s)} behind, or more: {reasons}",
        _FIX,
    )


def control_planes_time(seen: Observed) -> float | None:
    """Return the time by the control plane's clock; None if it is this one's, or not known."""
    ahead_s = min((each.ahead_s for each in seen.clocks), key=abs, default=0.0)
    return seen.now + ahead_s if abs(ahead_s) > _TOLERATED_S else None


def _shown(now: float) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _from_the_future(seen: Observed) -> Iterator[tuple[float, str]]:
    """Yield by how much this clock is behind at least, and what shows it."""
    claims = seen.token.claims if seen.token is not None else None
    if claims is not None:
        begins = max(claims.issued_at or 0.0, claims.not_before or 0.0)
        if begins > seen.now + _TOLERATED_S:
            yield begins - seen.now, "the token is from the future"
    for server in seen.servers:
        found = server.unreachable
        if found is not None and found.fault is Fault.NOT_YET_VALID and found.validity is not None:
            behind_s = found.validity.not_before.timestamp() - seen.now
            yield behind_s, f"the certificate of {server.server.address} is not valid yet"
