"""Decides which control plane the next stream goes to, and when; pure.

The first address that is not known to fail is used. A failed one is passed over for a delay that
grows with each failure. The delays begin again after a stream that lasted longer than the last
delay, so that a control plane that ends every stream at once is not called without a pause.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from mesh_lifecycle import Backoff

AGAIN = Backoff(initial_s=0.1, maximum_s=2.5, multiplier=1.3, jitter=0.5)
"""Between streams. A delay is about a third of the time that the outage has lasted, so that the
relay is soon back after a short one, and many relays come back spread over some seconds. Beside a
control plane that comes and goes, it may find it away each time: it is in sync within 3 s of the
last time all the same."""
REFUSED = Backoff(initial_s=0.1, maximum_s=30.0, multiplier=2.0, jitter=0.3)
"""Between streams to a control plane that refuses who we are. It is there and answers, and goes on
to refuse until something is corrected; new files for it are tried at once (`retry_now`). The first
delays are short: after the token, the workload's own certificate is tried."""
LOOK = Backoff(initial_s=10.0, maximum_s=300.0, multiplier=1.5, jitter=0.5)
"""Between looks at a failed address while another is in use."""

_LONG_S = 1.0


class ControlPlaneStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One of the control planes' addresses.

    healthy: it has answered, or could be connected to after a failure; None if it was not tried.
    since: when `healthy` became what it is (UTC).
    last_error: why it is not healthy.
    streams: how many streams there are to it now.
    """

    address: str
    healthy: bool | None
    since: datetime
    last_error: str | None
    streams: int


class ControlPlaneEntry:
    """A control plane in the order of preference: its address, and what is known of it.

    Only `Selection` changes it.
    """

    def __init__(self, address: str, *, since: datetime, look: Backoff, rng: random.Random) -> None:
        self.address = address
        self.streams = 0
        self.healthy: bool | None = None
        self.since = since
        self.last_error: str | None = None
        self.again = _Delays(AGAIN, rng)
        self.refused = _Delays(REFUSED, rng)
        self.look = _Delays(look, rng)

    @property
    def fails(self) -> bool:
        """Whether it is passed over while another is not known to fail."""
        return self.healthy is False


class Selection:
    """All addresses in the order of preference, and the outcome of the streams to them."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
        look: Backoff = LOOK,
        rng: random.Random | None = None,
    ) -> None:
        rng = rng or random.Random()
        self._monotonic = monotonic
        self._now = now
        self.entries = tuple(
            ControlPlaneEntry(each, since=now(), look=look, rng=rng) for each in addresses
        )

    @property
    def statuses(self) -> tuple[ControlPlaneStatus, ...]:
        """The status of each address."""
        return tuple(
            ControlPlaneStatus(
                address=entry.address,
                healthy=entry.healthy,
                since=entry.since,
                last_error=entry.last_error,
                streams=entry.streams,
            )
            for entry in self.entries
        )

    def to_try(self) -> tuple[ControlPlaneEntry, ...]:
        """Return the entries to try for a stream, one after the other.

        Those that fail come last, and where their delay is not over, not at all; but if that holds
        for each entry, they are tried all the same.
        """
        now = self._monotonic()
        sound = [entry for entry in self.entries if not entry.fails]
        due = [entry for entry in self.entries if entry.fails and entry.again.due_at <= now]
        return tuple(sound + due) or self.entries

    def wait_s(self) -> float:
        """Return the seconds until the next stream should be tried."""
        sound = [entry for entry in self.entries if not entry.fails]
        due_at = sound[0].again.due_at if sound else min(p.again.due_at for p in self.entries)
        return max(0.0, due_at - self._monotonic())

    def has_other(self, entry: ControlPlaneEntry) -> bool:
        """Return whether there is another control plane that is not known to fail."""
        return any(not each.fails for each in self.entries if each is not entry)

    def on_failure(self, entry: ControlPlaneEntry, reason: str, *, refused: bool = False) -> None:
        """No stream to it could be opened, or one ended before the first answer.

        refused: it answered that we may not have one.
        """
        entry.last_error = reason
        now = self._monotonic()
        entry.again.next(now)
        if refused:
            entry.refused.next(now)
            entry.again.due_at = entry.refused.due_at
        else:
            entry.refused.reset()
        if not entry.fails:
            entry.look.next(self._monotonic())
        self._set_healthy(entry, healthy=False)

    def on_answer(self, entry: ControlPlaneEntry) -> None:
        """The control plane answered on a stream."""
        entry.last_error = None
        entry.refused.reset()
        self._set_healthy(entry, healthy=True)

    def on_end(self, entry: ControlPlaneEntry, *, lasted_s: float) -> None:
        """A stream ended this long after its first answer."""
        for delays in (entry.again, entry.look):
            delays.reset_after(lasted_s)
        entry.again.next(self._monotonic())

    def fails_for_long(self) -> bool:
        """Return whether a control plane fails and is tried only now and then."""
        return any(entry.fails and entry.again.last_s >= _LONG_S for entry in self.entries)

    def to_look_at(self) -> tuple[ControlPlaneEntry, ...]:
        """Return the entries that fail and would be used instead of the one in use.

        If all fail and there is a stream to one all the same, because it is only silent, that is
        any other.
        """
        used = next((n for n, entry in enumerate(self.entries) if not entry.fails), None)
        if used is not None:
            return self.entries[:used]
        unused = tuple(entry for entry in self.entries if not entry.streams)
        return unused if len(unused) < len(self.entries) else ()

    def on_look(self, entry: ControlPlaneEntry, error: str | None) -> None:
        """A connection to it was tried without a stream: error is None if there was one."""
        entry.look.next(self._monotonic())
        if error is None:
            entry.last_error = None
            entry.again.due_at = self._monotonic()
            self._set_healthy(entry, healthy=True)
        else:
            entry.last_error = error

    def retry_now(self) -> None:
        """Try all again without waiting, because something changed that they may depend on."""
        for entry in self.entries:
            if entry.fails:
                now = self._monotonic()
                entry.again.due_at = entry.look.due_at = entry.refused.due_at = now

    def why_none(self) -> str:
        """Return why no control plane can be used, in words."""
        errors = [(entry.address, entry.last_error) for entry in self.entries]
        if len({error for _, error in errors}) == 1:
            return errors[0][1] or "it was not tried"
        return "; ".join(f"{address}: {error or 'not tried'}" for address, error in errors)

    def _set_healthy(self, entry: ControlPlaneEntry, *, healthy: bool) -> None:
        if entry.healthy is not healthy:
            entry.healthy = healthy
            entry.since = self._now()


class _Delays:
    """The delays of one control plane: when it is due, and how long the last delay was."""

    def __init__(self, backoff: Backoff, rng: random.Random) -> None:
        self._backoff = backoff
        self._rng = rng
        self._delays: Iterator[float] = backoff.delays(rng)
        self.last_s = 0.0
        self.due_at = 0.0

    def next(self, now: float) -> None:
        """Wait once more; what began before the current delay is over changes nothing."""
        if now >= self.due_at:
            self.last_s = next(self._delays)
            self.due_at = now + self.last_s

    def reset_after(self, lasted_s: float) -> None:
        """Begin again with short delays if what ended had lasted longer than the last delay."""
        if lasted_s >= self.last_s:
            self.reset()

    def reset(self) -> None:
        """Begin again with short delays."""
        self._delays = self._backoff.delays(self._rng)
