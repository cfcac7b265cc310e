"""Counts refused connections; tells when refusing for a reason begins and when it is over."""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

_MOST_PEERS = 1000
_MOST_NAMED = 3


class Reason(StrEnum):
    """Why a connection was refused, or ended for what it did."""

    PORT_FULL = "port full"
    PEER_FULL = "too many of one peer"
    NOT_ALLOWED = "peer not allowed"
    NO_FIRST_BYTE = "said nothing"
    NO_HANDSHAKE = "handshake took too long"
    NO_HEADERS = "headers took too long"
    STALLED = "took nothing of what was sent"
    NOT_READ = "did not read a message on one of its streams"
    NOT_SENT = "did not send a large request that others wait for"
    SENT_UNASKED = "sent more of a large request than it was let"
    TOO_MUCH_BEGUN = "began to send too much at once"
    OUT_OF_FILES = "out of file descriptors"
    NOT_FORWARDED = "could not be passed on"

    @property
    def label(self) -> str:
        """The reason's name in metrics, such as `port_full`."""
        return self.name.lower()


class Ended(NamedTuple):
    """Refusing for a reason is over. peers: those refused and how often, the most often first."""

    reason: Reason
    refused: int
    peers: str
    lasted_s: float


class _Episode:
    __slots__ = ("began", "last", "peers", "refused")

    def __init__(self, now: float) -> None:
        self.began = self.last = now
        self.refused = 0
        self.peers: Counter[str] = Counter()


class Refusals:
    """Counts refusals. Refusing begins with the first and is over after `quiet_s` without one."""

    def __init__(self, *, quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._going_on: dict[Reason, _Episode] = {}
        self.totals: Counter[Reason] = Counter()

    def begins(self, reason: Reason, peer: str, *, now: float) -> bool:
        """Count a refusal; returns whether refusing for this reason begins with it."""
        self.totals[reason] += 1
        episode = self._going_on.get(reason)
        begins = episode is None
        if episode is None:
            episode = self._going_on[reason] = _Episode(now)
        episode.last = now
        episode.refused += 1
        if peer in episode.peers or len(episode.peers) < _MOST_PEERS:
            episode.peers[peer] += 1
        return begins

    def next_end(self) -> float | None:
        """Return when the next one is over if nothing more is refused; None if none goes on."""
        return min((each.last + self._quiet_s for each in self._going_on.values()), default=None)

    def ended(self, *, now: float, all_of_them: bool = False) -> list[Ended]:
        """Remove and return those that are over by now."""
        over = [
            reason
            for reason, each in self._going_on.items()
            if all_of_them or each.last + self._quiet_s <= now
        ]
        return [_ended(reason, self._going_on.pop(reason)) for reason in over]


def _ended(reason: Reason, episode: _Episode) -> Ended:
    named = episode.peers.most_common(_MOST_NAMED)
    words = [f"{peer} ({times})" for peer, times in named]
    if (more := len(episode.peers) - len(named)) > 0:
        plus = "or more " if len(episode.peers) == _MOST_PEERS else ""
        words.append(f"and {more} {plus}others")
    return Ended(
        reason=reason,
        refused=episode.refused,
        peers=", ".join(words),
        lasted_s=round(episode.last - episode.began, 3),
    )
