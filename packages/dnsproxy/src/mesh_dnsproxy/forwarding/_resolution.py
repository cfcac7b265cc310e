"""Asks servers one question until one of them answers: a state machine without I/O.

The caller sends the attempts that each method returns, reports their results, calls `time_passed`
at `due_at`, and stops when there is an `outcome`. When a server does not answer in time, the next
one is asked, but its answer still counts until the end.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.message._reply import Verdict


class Transport(StrEnum):
    """The transport by which a server is asked."""

    UDP = "udp"
    TCP = "tcp"


class Attempt(NamedTuple):
    """One sending of the question. number: different for each attempt."""

    number: int
    server: Upstream
    transport: Transport


class Outcome(NamedTuple):
    """The end of a resolution.

    reply: None when no server replied. answered: a server gave an answer that can be kept;
    otherwise the reply is the best one: truncated, or an error.
    """

    reply: bytes | None
    answered: bool
    server: Upstream | None


class Resolution:
    """One question: `start`, then `replied`, `failed` and `time_passed` until `outcome`."""

    def __init__(
        self,
        servers: Sequence[Upstream],
        transport: Transport,
        *,
        timeout_s: float,
        total_timeout_s: float,
        rounds: int,
        parallel: bool,
    ) -> None:
        self._timeout_s = timeout_s
        self._total_timeout_s = total_timeout_s
        self._waves = _plan(servers, transport, rounds=rounds, parallel=parallel)
        self._wave = 0
        self._number = 0
        self._ends_at = self._next_at = 0.0
        self._open: dict[int, Attempt] = {}
        self._current: set[int] = set()
        self._failed: set[tuple[Upstream, Transport]] = set()
        self._best: tuple[int, bytes, Upstream] | None = None
        self.outcome: Outcome | None = None

    @property
    def due_at(self) -> float:
        """The time at which `time_passed` is to be called."""
        return min(self._next_at, self._ends_at)

    @property
    def silent(self) -> tuple[Upstream, ...]:
        """The servers that were asked and have not replied."""
        return tuple(dict.fromkeys(attempt.server for attempt in self._open.values()))

    def start(self, now: float) -> tuple[Attempt, ...]:
        """Begin. Like the methods below, returns the attempts to send."""
        self._ends_at = now + self._total_timeout_s
        return self._advance(now)

    def replied(
        self, attempt: Attempt, verdict: Verdict, reply: bytes, now: float
    ) -> tuple[Attempt, ...]:
        """A server replied to this question."""
        if self.outcome is not None or attempt.number not in self._open:
            return ()
        match verdict:
            case Verdict.GOOD:
                self.outcome = Outcome(reply, answered=True, server=attempt.server)
                return ()
            case Verdict.TRUNCATED:
                self._remember(2, reply, attempt.server)
                if attempt.transport is Transport.UDP:
                    self._close(attempt)
                    return self._send([(attempt.server, Transport.TCP)], now)
                return self._next_if_idle(attempt, now)
            case _:
                self._remember(1, reply, attempt.server)
                self._failed.add((attempt.server, attempt.transport))
                return self._next_if_idle(attempt, now)

    def failed(self, attempt: Attempt, now: float) -> tuple[Attempt, ...]:
        """An attempt failed: there will be no reply to it."""
        if self.outcome is not None or attempt.number not in self._open:
            return ()
        self._failed.add((attempt.server, attempt.transport))
        return self._next_if_idle(attempt, now)

    def time_passed(self, now: float) -> tuple[Attempt, ...]:
        """The time `due_at` has come, or passed."""
        if self.outcome is not None:
            return ()
        if now >= self._ends_at:
            self._end()
            return ()
        return self._advance(now) if now >= self._next_at else ()

    def _next_if_idle(self, attempt: Attempt, now: float) -> tuple[Attempt, ...]:
        self._close(attempt)
        return () if self._current else self._advance(now)

    def _close(self, attempt: Attempt) -> None:
        self._open.pop(attempt.number, None)
        self._current.discard(attempt.number)

    def _advance(self, now: float) -> tuple[Attempt, ...]:
        """Send the next wave with a server that has not failed."""
        while self._wave < len(self._waves):
            wave = [each for each in self._waves[self._wave] if each not in self._failed]
            self._wave += 1
            if wave:
                self._current = set()
                return self._send(wave, now)
        self._next_at = self._ends_at
        if not self._open:
            self._end()
        return ()

    def _send(self, wave: Sequence[tuple[Upstream, Transport]], now: float) -> tuple[Attempt, ...]:
        attempts = []
        for server, transport in wave:
            self._number += 1
            attempt = Attempt(self._number, server, transport)
            self._open[attempt.number] = attempt
            self._current.add(attempt.number)
            attempts.append(attempt)
        self._next_at = now + self._timeout_s
        return tuple(attempts)

    def _remember(self, worth: int, reply: bytes, server: Upstream) -> None:
        if self._best is None or worth > self._best[0]:
            self._best = worth, reply, server

    def _end(self) -> None:
        if self._best is None:
            self.outcome = Outcome(None, answered=False, server=None)
        else:
            _, reply, server = self._best
            self.outcome = Outcome(reply, answered=False, server=server)


def _plan(
    servers: Sequence[Upstream], transport: Transport, *, rounds: int, parallel: bool
) -> list[list[tuple[Upstream, Transport]]]:
    """Return the servers to ask together, wave after wave; the client's transport comes first."""
    waves = []
    transports = [transport] * rounds
    if transport is Transport.TCP:
        transports.append(Transport.UDP)
    for each in transports:
        wave = [(server, each) for server in servers]
        waves += [wave] if parallel else [[one] for one in wave]
    return waves
