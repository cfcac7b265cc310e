"""Which roots count besides those in the operator's file: decided over plain data.

The control plane announces its roots over connections that were verified. What is announced is
remembered with the roots of the file at that time, and counts for as long as one of these is still
in the file, the control plane vouched for it not too long ago, and it has not expired. A root that
the operator has taken out of the file does not count, whatever is announced.
"""

from collections.abc import Mapping
from typing import NamedTuple

MAX_AGE_S = 30 * 86_400.0
"""So long a root counts after the control plane last vouched for it."""

_VOUCHED_AGAIN_S = 86_400.0  # newer word than this is not worth writing to a disk
_MAX_ROOTS = 16
_MAX_WITHDRAWN = 64


class Root(NamedTuple):
    """A root certificate. not_after: Unix time."""

    fingerprint: str
    pem: str
    not_after: float


class Learned(NamedTuple):
    """A root that was announced.

    vouched_at: Unix time of the last word. under: fingerprints of the file's roots at that time.
    """

    root: Root
    vouched_at: float
    under: frozenset[str]


class RootMemory(NamedTuple):
    """All that is remembered.

    in_file: fingerprints and ends of the file's roots, when it was last read.
    withdrawn: those that were in the file and have been taken out.
    """

    learned: tuple[Learned, ...] = ()
    in_file: Mapping[str, float] = {}
    withdrawn: Mapping[str, float] = {}

    def look(self, file: tuple[Root, ...], *, now: float) -> "RootMemory":
        """Take in what the file holds now."""
        in_file = {root.fingerprint: root.not_after for root in file}
        gone = {each: end for each, end in self.in_file.items() if each not in in_file}
        withdrawn = {
            each: end
            for each, end in {**self.withdrawn, **gone}.items()
            if each not in in_file and end > now
        }
        return self._replace(
            in_file=in_file, withdrawn=dict(list(withdrawn.items())[-_MAX_WITHDRAWN:])
        )

    def learn(
        self, announced: tuple[Root, ...], *, under: frozenset[str], whole: bool, now: float
    ) -> "RootMemory":
        """Take in what was announced over a connection verified while `under` was in the file.

        whole: these are all the roots there are, so others are forgotten.
        """
        known = {each.root.fingerprint: each for each in self.learned}
        fresh = {
            root.fingerprint: self._vouched(known.get(root.fingerprint), root, under, now)
            for root in announced
            if root.fingerprint not in self.in_file
            and root.fingerprint not in self.withdrawn
            and root.not_after > now
        }
        kept = {} if whole else {each: old for each, old in known.items() if each not in fresh}
        return self._replace(learned=tuple({**kept, **fresh}.values())[-_MAX_ROOTS:])

    def in_force(self, *, now: float) -> tuple[Root, ...]:
        """The roots that count besides the file's."""
        return tuple(each.root for each in self.learned if self._counts(each, now))

    def _counts(self, learned: Learned, now: float) -> bool:
        return (
            learned.root.fingerprint not in self.withdrawn
            and learned.root.fingerprint not in self.in_file
            and not learned.under.isdisjoint(self.in_file)
            and abs(now - learned.vouched_at) <= MAX_AGE_S
            and now < learned.root.not_after
        )

    def _vouched(
        self, known: Learned | None, root: Root, under: frozenset[str], now: float
    ) -> Learned:
        if (
            known is not None
            and known.under == under
            # Not from the future: a clock that was ahead once must not make a root count longer.
            and 0 <= now - known.vouched_at < _VOUCHED_AGAIN_S
        ):
            return known
        return Learned(root=root, vouched_at=now, under=under)
