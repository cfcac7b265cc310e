"""The books: what was sent, what became of it, and why; pure functions over what was noted.

A request may fail for three reasons only:

1. it was under way on an Envoy when that was killed: it had a connection, was sent before the
   kernel had ended the process, or in the moments in which others still have connections to it,
   and ended then. One that was refused a connection was under way on nothing: an Envoy's
   sockets outlive it;
2. the one workload that sends or serves it was away, because its agent was killed, and with it
   its Envoy;
3. nothing else. A slow answer is no failure; an error is, whatever went on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

SETTLE_S = 0.5
"""Callers learn of a process's end by their connections, which they see when they have the time."""
CUT_AFTER_S = 5.0
"""A request on a connection whose end is gone fails within this time."""


_REFUSED = ("Connection refused", "delayed connect error: 111")
"""In the answers of an Envoy that found no connection for a request."""


class Cause(StrEnum):
    """The reasons for which a request may fail."""

    IN_FLIGHT = "in flight on a killed Envoy"
    AWAY = "its workload was away"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A kind of traffic.

    passes: the workloads whose Envoys requests pass. needs: those without which none is answered.
    """

    name: str
    passes: frozenset[str]
    needs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request that failed; times are those of the machine's monotonic clock.

    connected: it had a connection, to what it was sent to first.
    """

    lane: str
    sent_at: float
    failed_at: float
    what: str
    connected: bool = True

    @property
    def refused(self) -> bool:
        """Whether there was no connection for it, at first or further on."""
        return not self.connected or any(word in self.what for word in _REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """An Envoy that was killed: when the kill began, and when the kernel had ended the process."""

    workload: str
    begun: float
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A workload without its agent and its Envoy: from the kill until it was ready again."""

    workload: str
    begun: float
    ended: float


def cause_of(
    failed: Failed, lane: Lane, deaths: Iterable[Death], absences: Iterable[Absence]
) -> Cause | None:
    """Return why a request was allowed to fail; None if it was not."""
    for death in deaths:
        if (
            death.workload in lane.passes
            and not failed.refused
            and failed.sent_at <= death.done + SETTLE_S
            and death.begun <= failed.failed_at <= death.done + CUT_AFTER_S
        ):
            return Cause.IN_FLIGHT
    for absence in absences:
        if (
            absence.workload in lane.needs
            and failed.sent_at <= absence.ended
            and failed.failed_at >= absence.begun
        ):
            return Cause.AWAY
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of a lane's requests."""

    lane: str
    answered: int
    failed: Mapping[Cause, int]
    not_allowed: Sequence[Failed] = field(default=())

    @property
    def sent(self) -> int:
        return self.answered + sum(self.failed.values()) + len(self.not_allowed)


def account(
    lane: Lane,
    *,
    answered: int,
    failures: Sequence[Failed],
    deaths: Sequence[Death],
    absences: Sequence[Absence],
) -> Account:
    """Sort a lane's failures by their causes."""
    causes: Counter[Cause] = Counter()
    refused = []
    for each in failures:
        cause = cause_of(each, lane, deaths, absences)
        if cause is None:
            refused.append(each)
        else:
            causes[cause] += 1
    return Account(lane=lane.name, answered=answered, failed=causes, not_allowed=tuple(refused))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A quantity early in the run and at its end: medians, so that starts do not count.

    samples: how many there were.
    """

    what: str
    early: float
    late: float
    samples: int


def level_of(what: str, samples: Sequence[float]) -> Level | None:
    """Compare the second fifth of the samples with the last; None if there are too few."""
    if len(samples) < 10:
        return None
    fifth = len(samples) // 5
    return Level(
        what=what,
        early=_median(samples[fifth : 2 * fifth]),
        late=_median(samples[-fifth:]),
        samples=len(samples),
    )


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def grown(level: Level, *, share: float, least: float) -> str | None:
    """Say that a quantity has grown by more than a share and a least amount; None if it has not."""
    if level.late <= level.early * (1 + share) + least:
        return None
    return f"{level.what} grew from {level.early:.0f} to {level.late:.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """A certificate that a workload presented in a handshake; times are of the machine's clock."""

    workload: str
    serial: str
    not_after: float
    seen_at: float


def certificate_faults(
    presented: Sequence[Presented],
    issued: Mapping[str, frozenset[str]],
    *,
    seconds: float,
    renewal_s: float,
    slack_s: float,
) -> tuple[str, ...]:
    """Say what is wrong with the certificates that were presented.

    issued: the serials of each workload in the authority's log. renewal_s: how often they are
    renewed. slack_s: how long an expired one may still be seen, for clocks and busy machines.
    """
    faults = []
    for each in presented:
        if each.serial not in issued.get(each.workload, frozenset()):
            faults.append(f"{each.workload} presented {each.serial}, which was never issued")
        if each.seen_at > each.not_after + slack_s:
            faults.append(
                f"{each.workload} presented {each.serial} "
                f"{each.seen_at - each.not_after:.0f} s after it had expired"
            )
    for workload in sorted(issued):
        serials = {each.serial for each in presented if each.workload == workload}
        # A renewal may wait for a control plane that is away, or an agent that is stopped.
        wanted = int(seconds / renewal_s / 4)
        if len(serials) < wanted:
            faults.append(
                f"{workload} presented {len(serials)} certificates in {seconds:.0f} s, "
                f"at least {wanted} were to be expected"
            )
    return tuple(dict.fromkeys(faults))
