"""The streams of several Envoys, and which one of them leads.

Usually there is one. During a hot restart the old Envoy, which finishes its requests, and the new
one have a stream each; and an Envoy that lost its connection may be back before the end of its old
stream is noticed. The newest stream leads: the relay's status and the agent's own types follow it.
When it ends, the newest of the remaining ones leads.

gRPC programs that take their configuration themselves have a stream for each target.

When there are too many streams, one of the process that has the most is ended, so that a process
that opens many does not end the streams of another.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, Protocol, TypeVar


class EnvoyStream(Protocol):
    """A stream that gets to know whether it leads. process: of the Envoy; None if it is unknown."""

    @property
    def process(self) -> int | None: ...

    def start_leading(self) -> None: ...

    def stop_leading(self) -> None: ...


S = TypeVar("S", bound=EnvoyStream)


class EnvoyStreams(Generic[S]):
    """The streams in the order of their arrival, at most so many; synchronous, does no I/O."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._streams: list[S] = []

    @property
    def all(self) -> tuple[S, ...]:
        """Every stream, the oldest first."""
        return tuple(self._streams)

    @property
    def leading(self) -> S | None:
        """The newest stream; None when there is none."""
        return self._streams[-1] if self._streams else None

    def add(self, newcomer: S) -> S | None:
        """Let a new stream lead. Returns the stream that has to end because there are too many."""
        if (previous := self.leading) is not None:
            previous.stop_leading()
        crowded_out = self._one_too_many(newcomer) if len(self._streams) >= self._most else None
        if crowded_out is not None:
            self._streams.remove(crowded_out)
        self._streams.append(newcomer)
        newcomer.start_leading()
        return crowded_out

    def remove(self, stream: S) -> bool:
        """Remove a stream if it is still there. Returns whether another one now leads instead."""
        if stream not in self._streams:
            return False
        was_leading = self.leading is stream
        self._streams.remove(stream)
        if not was_leading or (successor := self.leading) is None:
            return False
        successor.start_leading()
        return True

    def _one_too_many(self, newcomer: S) -> S:
        """Return the oldest stream of the process that has the most."""
        of_process = Counter(stream.process for stream in (*self._streams, newcomer))
        return max(self._streams, key=lambda stream: of_process[stream.process])
