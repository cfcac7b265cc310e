"""Events that happen again and again, and which of them are worth a line in the log.

A caller that is refused comes back, a file that is broken is read again: logged each time, one
mistake fills the log and hides the next. So the first time of each subject and reason is logged,
the repeats are logged as numbers at growing intervals, and so is the end. Of many subjects at once
only the first few are logged by name, the others in one line together: a thousand cost hardly more
than one.

Synchronous, does no I/O; `RepeatLog` writes the lines.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

MOST_KEYS = 1_000
"""Subjects and reasons that are kept apart; callers may choose them, and each takes memory."""
_OTHERS = ("others", "")
_NUMBER = re.compile(r"[0-9]+")
FIRST_LINES = 10
"""First times that may be logged one after the other; one more may be a minute later."""
_ANOTHER_AFTER_S = 60.0
_FIRST_INTERVAL_S = 60.0
_LONGEST_INTERVAL_S = 3_600.0
_MOST_NAMED = 3

Facts = Mapping[str, object]


class Phase(Enum):
    """The message of a line: something begins, goes on, or is over."""

    BEGINS = auto()
    REPEATS = auto()
    ENDS = auto()


class Line(NamedTuple):
    """One line of the log."""

    phase: Phase
    facts: Facts


@dataclass(slots=True)
class _Repeated:
    """The event of one subject, for one reason. times: in all; unlogged: since the last line."""

    began: float
    last: float
    facts: Facts
    times: int = 0
    unlogged: int = 0
    named: bool = False


@dataclass(slots=True)
class Repeats:
    """The repeats of one kind of event. quiet_s: after so long without another it is over."""

    quiet_s: float
    _keys: dict[tuple[str, str], _Repeated] = field(default_factory=dict)
    """The one that happened the longest ago first."""
    _allowance: float = FIRST_LINES
    _allowance_at: float = -math.inf
    _began: float = 0.0
    _interval_s: float = _FIRST_INTERVAL_S
    _summary_at: float = math.inf
    _gone: Counter[str] = field(default_factory=Counter)
    """How often it happened to subjects that are over and were never logged by name."""

    def happened(self, subject: str, reason: str, facts: Facts, *, now: float) -> list[Line]:
        """Note one event; returns the lines to be logged now.

        Reasons that differ in numbers only are the same, such as `expired 5 s ago` and a port.
        """
        lines = self.settled(now=now)
        key = (subject, _NUMBER.sub("0", reason))
        if key not in self._keys and len(self._keys) >= MOST_KEYS:
            key = _OTHERS
        if not self._keys:
            self._began, self._interval_s = now, _FIRST_INTERVAL_S
            self._summary_at = now + _FIRST_INTERVAL_S
        known = self._keys.pop(key, None)
        event = _Repeated(began=now, last=now, facts=facts) if known is None else known
        self._keys[key] = event
        event.last, event.facts = now, facts
        event.times += 1
        if known is None and key != _OTHERS and self._may_name(now):
            event.named = True
            lines.append(Line(Phase.BEGINS, facts))
        else:
            event.unlogged += 1
        return lines

    def ended(self, subject: str, *, now: float) -> list[Line]:
        """Note that it is over for a subject; returns the lines to be logged now."""
        over = [key for key in self._keys if key[0] == subject]
        return [*self._end(over, now=now), *self.settled(now=now)]

    def settled(self, *, now: float) -> list[Line]:
        """Return the lines that are due by now."""
        lines = []
        if now >= self._summary_at:
            lines = self._summary(now)
            self._interval_s = min(self._interval_s * 2, _LONGEST_INTERVAL_S)
            self._summary_at = now + self._interval_s
        quiet = []
        for key, event in self._keys.items():
            if now < event.last + self.quiet_s:
                break
            quiet.append(key)
        return [*lines, *self._end(quiet, now=now)]

    def next_at(self) -> float:
        """Return when the next line may be due; infinity while nothing happens."""
        if not self._keys:
            return math.inf
        oldest = next(iter(self._keys.values()))
        return min(self._summary_at, oldest.last + self.quiet_s)

    def _may_name(self, now: float) -> bool:
        refilled = (now - self._allowance_at) / _ANOTHER_AFTER_S
        self._allowance = min(self._allowance + refilled, FIRST_LINES)
        self._allowance_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _end(self, keys: Iterable[tuple[str, str]], *, now: float) -> list[Line]:
        """Forget keys, and log of each that was logged by name that it is over.

        The others are logged with the next summary, or with the last that is over.
        """
        lines = []
        for key in keys:
            event = self._keys.pop(key)
            if event.named:
                numbers = {"times": event.times, "lasted_s": round(event.last - event.began, 1)}
                lines.append(Line(Phase.ENDS, {**event.facts, **numbers}))
            elif event.unlogged:
                self._gone[key[0] if len(self._gone) < MOST_KEYS else _OTHERS[0]] += event.unlogged
        if not self._keys:
            lines = [*self._summary(now), *lines]
            self._summary_at = math.inf
        return lines

    def _summary(self, now: float) -> list[Line]:
        """Return one line of what was not logged yet: how often, how many, who most."""
        unlogged = [(subject, each) for (subject, _), each in self._keys.items() if each.unlogged]
        times, self._gone = self._gone, Counter()
        for subject, event in unlogged:
            times[subject] += event.unlogged
            event.unlogged = 0
        if not times:
            return []
        numbers = {"times": times.total(), "for_s": round(now - self._began, 1)}
        newest = max((each for _, each in unlogged), key=lambda each: each.last, default=None)
        if newest is not None and len(times) == 1:
            return [Line(Phase.REPEATS, {**newest.facts, **numbers})]
        most = ", ".join(
            f"{subject} ({count})" for subject, count in times.most_common(_MOST_NAMED)
        )
        facts: dict[str, object] = {**numbers, "subjects": len(times), "most": most}
        if newest is not None and "reason" in newest.facts:
            facts["last_reason"] = newest.facts["reason"]
        return [Line(Phase.REPEATS, facts)]
