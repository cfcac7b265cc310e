"""Whether the books balance: each sentence is something that must not be; pure."""

from collections.abc import Iterator, Mapping, Sequence

from mesh_chaos._books import (
    Account,
    Failed,
    Level,
    account,
    certificate_faults,
    grown,
    level_of,
)
from mesh_chaos._configuration import RENEWAL_S
from mesh_chaos._observing import per_minute
from mesh_chaos._running import Outcome

LONGEST_ABSENCE_S = 60.0
MOST_LINES_A_MINUTE, MOST_LINES_AT_ONCE = 200, 500
MOST_FURTHER_FILES = 12
MEMORY_SHARE, MEMORY_LEAST_MB = 0.25, 15.0
DESCRIPTORS_SHARE, DESCRIPTORS_LEAST = 0.25, 12.0
LEVELS_SINCE_S = 300.0
_CLOCK_SLACK_S = 5.0
_SHOWN = 10


def accounts(outcome: Outcome) -> list[Account]:
    """Return what became of each lane's requests."""
    tested, traffic = outcome.tested, outcome.traffic
    return [
        account(
            lane,
            answered=traffic.answered[lane.name],
            failures=[each for each in traffic.failures if each.lane == lane.name],
            deaths=tested.deaths,
            absences=tested.all_absences(),
        )
        for lane in traffic.lanes
    ]


def levels(samples: Mapping[str, Sequence[float]]) -> list[Level]:
    """Return what each process had early and late, as far as it was looked at often enough."""
    found = [level_of(name, each) for name, each in sorted(samples.items())]
    return [each for each in found if each is not None]


def findings(outcome: Outcome) -> list[str]:
    """Return what must not be, a sentence each; empty if the books balance."""
    return [
        *_requests(outcome),
        *(f"t={at - outcome.began_at:.1f} s: {said}" for at, said in outcome.tested.problems),
        *_absences(outcome),
        *certificate_faults(
            list(outcome.observations.presented.values()),
            outcome.issued,
            seconds=outcome.seconds,
            renewal_s=RENEWAL_S,
            slack_s=_CLOCK_SLACK_S,
        ),
        *_growth(outcome),
        *(f"a traceback in the log {each}" for each in outcome.observations.tracebacks),
        *(f"{each} is left behind" for each in outcome.observations.left),
    ]


def _requests(outcome: Outcome) -> Iterator[str]:
    for each in accounts(outcome):
        for failed in each.not_allowed[:_SHOWN]:
            yield _sentence(outcome, failed)
        if (more := len(each.not_allowed) - _SHOWN) > 0:
            yield f"{more} more of {each.lane} failed without a right to"


def _sentence(outcome: Outcome, failed: Failed) -> str:
    sent, ended = failed.sent_at - outcome.began_at, failed.failed_at - outcome.began_at
    beside = [
        str(each.fault)
        for each in outcome.happened
        if each.begun_s - 1 <= ended and sent <= each.ended_s + 5
    ]
    during = f" beside {'; '.join(beside)}" if beside else " beside no fault"
    return (
        f"a request of {failed.lane} failed without a right to, sent at t={sent:.2f} s, "
        f"failed at t={ended:.2f} s{during}: {failed.what}"
    )


def _absences(outcome: Outcome) -> Iterator[str]:
    for each in outcome.tested.all_absences():
        if (away_s := each.ended - each.begun) > LONGEST_ABSENCE_S:
            yield (
                f"{each.workload} was away for {away_s:.0f} s from "
                f"t={each.begun - outcome.began_at:.1f} s"
            )


def _grown_processes(outcome: Outcome) -> Iterator[str]:
    seen = outcome.observations
    for level in levels(seen.memory_mb):
        if said := grown(level, share=MEMORY_SHARE, least=MEMORY_LEAST_MB):
            yield f"the memory in MB of the {said}"
    for level in levels(seen.descriptors):
        if said := grown(level, share=DESCRIPTORS_SHARE, least=DESCRIPTORS_LEAST):
            yield f"the descriptors of the {said}"
    for level in levels(seen.children):
        if said := grown(level, share=0, least=0):
            yield f"the child processes of the {said}"


def _growth(outcome: Outcome) -> Iterator[str]:
    # In a short run a process that was started again has few samples, before it was busy or after.
    if outcome.seconds >= LEVELS_SINCE_S:
        yield from _grown_processes(outcome)
    before, after = outcome.files
    for name in sorted(after):
        if after[name] > before.get(name, 0) + MOST_FURTHER_FILES:
            yield f"{name} had {before.get(name, 0)} files at first, and {after[name]} at the end"
    for name, lines in per_minute(*outcome.lines, outcome.seconds).items():
        # Each stream that is opened and closed is a line; in a short run there may be many at once.
        if lines > MOST_LINES_A_MINUTE + MOST_LINES_AT_ONCE * 60 / outcome.seconds:
            yield f"the log {name} had {lines:.0f} lines a minute"
