"""Which of Envoy's streams there are, and which one leads.

Usually there is one. During a hot restart the old Envoy, which finishes its requests, and the new
one each have theirs, and an Envoy that lost its connection may be back before its old stream is
seen to end. The newest leads: status and the agent's own types follow it. When it ends, the newest
of those left takes over.

Too many are too many of some process: another process's streams are not ended for it.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, Protocol, TypeVar

MAX_STREAMS = 4
"""More than there are Envoys on purpose: it bounds what a client that misbehaves can cost."""


class Member(Protocol):
    """What is told whether it leads. process: whose it is; None: nobody knows."""

    @property
    def process(self) -> int | None: ...

    def lead(self) -> None: ...

    def follow(self) -> None: ...


M = TypeVar("M", bound=Member)


class Roster(Generic[M]):
    """The streams in the order of their arrival; synchronous, does no I/O."""

    def __init__(self) -> None:
        self._members: list[M] = []

    @property
    def members(self) -> tuple[M, ...]:
        """Oldest first."""
        return tuple(self._members)

    @property
    def leader(self) -> M | None:
        """The newest; None when there is none."""
        return self._members[-1] if self._members else None

    def join(self, newcomer: M) -> M | None:
        """Let a newcomer lead; returns the one that has to go for it, if there are too many."""
        crowded_out = self._one_too_many(newcomer) if len(self._members) >= MAX_STREAMS else None
        if crowded_out is not None:
            self._members.remove(crowded_out)
        if (previous := self.leader) is not None:
            previous.follow()
        self._members.append(newcomer)
        newcomer.lead()
        return crowded_out

    def leave(self, member: M) -> bool:
        """Take one off, if it is still there; returns whether another now leads in its place."""
        if member not in self._members:
            return False
        led = self.leader is member
        self._members.remove(member)
        if not led or (successor := self.leader) is None:
            return False
        successor.lead()
        return True

    def _one_too_many(self, newcomer: M) -> M:
        """The oldest of the process that has most streams."""
        streams = Counter(member.process for member in (*self._members, newcomer))
        return max(self._members, key=lambda member: streams[member.process])
