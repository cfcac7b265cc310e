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


class Place:
    """One address and what is known of it; changed by `Selection` alone."""

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
        self.places = tuple(Place(each, since=now(), look=look, rng=rng) for each in addresses)

    @property
    def statuses(self) -> tuple[ControlPlaneStatus, ...]:
        """The status of each address."""
        return tuple(
            ControlPlaneStatus(
                address=place.address,
                healthy=place.healthy,
                since=place.since,
                last_error=place.last_error,
                streams=place.streams,
            )
            for place in self.places
        )

    def to_try(self) -> tuple[Place, ...]:
        """Return the places to try for a stream, one after the other.

        Those that fail come last, and where their delay is not over, not at all; but if that holds
        for each place, they are tried all the same.
        """
        now = self._monotonic()
        sound = [place for place in self.places if not place.fails]
        due = [place for place in self.places if place.fails and place.again.due_at <= now]
        return tuple(sound + due) or self.places

    def wait_s(self) -> float:
        """Return the seconds until the next stream should be tried."""
        sound = [place for place in self.places if not place.fails]
        due_at = sound[0].again.due_at if sound else min(p.again.due_at for p in self.places)
        return max(0.0, due_at - self._monotonic())

    def has_other(self, place: Place) -> bool:
        """Return whether there is another place that is not known to fail."""
        return any(not each.fails for each in self.places if each is not place)

    def failed(self, place: Place, reason: str, *, refused: bool = False) -> None:
        """No stream to it could be opened, or one ended before the first answer.

        refused: it answered that we may not have one.
        """
        place.last_error = reason
        now = self._monotonic()
        place.again.next(now)
        if refused:
            place.refused.next(now)
            place.again.due_at = place.refused.due_at
        else:
            place.refused.reset()
        if not place.fails:
            place.look.next(self._monotonic())
        self._set_healthy(place, healthy=False)

    def answered(self, place: Place) -> None:
        """The control plane answered on a stream."""
        place.last_error = None
        place.refused.reset()
        self._set_healthy(place, healthy=True)

    def ended(self, place: Place, *, lasted_s: float) -> None:
        """A stream ended this long after its first answer."""
        for delays in (place.again, place.look):
            delays.reset_after(lasted_s)
        place.again.next(self._monotonic())

    def fails_for_long(self) -> bool:
        """Return whether a place fails and is tried only now and then."""
        return any(place.fails and place.again.last_s >= _LONG_S for place in self.places)

    def to_look_at(self) -> tuple[Place, ...]:
        """Return the places that fail and would be used instead of the one in use.

        If all fail and there is a stream to one all the same, because it is only silent, that is
        any other.
        """
        used = next((n for n, place in enumerate(self.places) if not place.fails), None)
        if used is not None:
            return self.places[:used]
        unused = tuple(place for place in self.places if not place.streams)
        return unused if len(unused) < len(self.places) else ()

    def looked(self, place: Place, error: str | None) -> None:
        """A connection to it was tried without a stream: error is None if there was one."""
        place.look.next(self._monotonic())
        if error is None:
            place.last_error = None
            place.again.due_at = self._monotonic()
            self._set_healthy(place, healthy=True)
        else:
            place.last_error = error

    def retry_now(self) -> None:
        """Try all again without waiting, because something changed that they may depend on."""
        for place in self.places:
            if place.fails:
                now = self._monotonic()
                place.again.due_at = place.look.due_at = place.refused.due_at = now

    def why_none(self) -> str:
        """Return why no place can be used, in words."""
        errors = [(place.address, place.last_error) for place in self.places]
        if len({error for _, error in errors}) == 1:
            return errors[0][1] or "it was not tried"
        return "; ".join(f"{address}: {error or 'not tried'}" for address, error in errors)

    def _set_healthy(self, place: Place, *, healthy: bool) -> None:
        if place.healthy is not healthy:
            place.healthy = healthy
            place.since = self._now()


class _Delays:
    """The delays of one place: when it is due, and how long the last delay was."""

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
