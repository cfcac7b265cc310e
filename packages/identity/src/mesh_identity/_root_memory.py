"""Decides which announced roots are trusted besides those in the operator's file, over plain data.

The control plane announces its roots over verified connections. An announced root is stored with
the roots that the file had then. It is trusted as long as one of these is still in the file, it was
announced recently enough, and it has not expired. A root that the operator has removed from the
file is never trusted, whatever is announced.
"""

from collections.abc import Mapping
from typing import NamedTuple

MAX_AGE_S = 30 * 86_400.0
"""How long a root is trusted after it was last announced."""

_REFRESH_S = 86_400.0  # a repeated announcement is stored at most this often
_MAX_ROOTS = 16
_MAX_WITHDRAWN = 64


class Root(NamedTuple):
    """A root certificate. not_after: Unix time."""

    fingerprint: str
    pem: str
    not_after: float


class LearnedRoot(NamedTuple):
    """A root that was announced.

    announced_at: Unix time of the last announcement.
    file_roots: fingerprints of the file's roots at that time.
    """

    root: Root
    announced_at: float
    file_roots: frozenset[str]


class RootMemory(NamedTuple):
    """The roots that are stored.

    in_file: fingerprints and expiry of the file's roots, when it was last read.
    withdrawn: the same of roots that were removed from the file.
    """

    learned: tuple[LearnedRoot, ...] = ()
    in_file: Mapping[str, float] = {}
    withdrawn: Mapping[str, float] = {}

    def with_file(self, file: tuple[Root, ...], *, now: float) -> "RootMemory":
        """Return the memory after the file was read."""
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
        self, announced: tuple[Root, ...], *, file_roots: frozenset[str], complete: bool, now: float
    ) -> "RootMemory":
        """Return the memory after an announcement over a connection that the file's roots verified.

        complete: whether these are all roots, so that others are forgotten.
        """
        known = {each.root.fingerprint: each for each in self.learned}
        fresh = {
            root.fingerprint: self._learned(known.get(root.fingerprint), root, file_roots, now)
            for root in announced
            if root.fingerprint not in self.in_file
            and root.fingerprint not in self.withdrawn
            and root.not_after > now
        }
        kept = {} if complete else {each: old for each, old in known.items() if each not in fresh}
        return self._replace(learned=tuple({**kept, **fresh}.values())[-_MAX_ROOTS:])

    def trusted(self, *, now: float) -> tuple[Root, ...]:
        """Return the roots that are trusted besides the file's."""
        return tuple(each.root for each in self.learned if self._is_trusted(each, now))

    def _is_trusted(self, learned: LearnedRoot, now: float) -> bool:
        return (
            learned.root.fingerprint not in self.withdrawn
            and learned.root.fingerprint not in self.in_file
            and not learned.file_roots.isdisjoint(self.in_file)
            and abs(now - learned.announced_at) <= MAX_AGE_S
            and now < learned.root.not_after
        )

    def _learned(
        self, known: LearnedRoot | None, root: Root, file_roots: frozenset[str], now: float
    ) -> LearnedRoot:
        if (
            known is not None
            and known.file_roots == file_roots
            # Not from the future: a clock that was ahead once must not make a root count longer.
            and 0 <= now - known.announced_at < _REFRESH_S
        ):
            return known
        return LearnedRoot(root=root, announced_at=now, file_roots=file_roots)
