"""The names of requests that were read before, found again by their bytes.

In the state of the world every acknowledgement repeats all names that the client wants, ten
thousand of them where it knows ten thousand clusters, and all clients of one shape repeat the same.
They are written one after the other, so that comparing the bytes tells whether they are the same.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_RUNS = 8
MOST_BYTES = 1 << 20
"""Of one run; a longer one is read each time."""
NAME_TAG = 0x1A
"""The tag of a name in a `DiscoveryRequest`."""


class _Run(NamedTuple):
    data: bytes
    names: frozenset[str]


class NameRuns:
    """The names of the last requests with many; the one that was found last comes first."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self.found = 0
        """How often names were found again."""

    def find(self, data: bytes, at: int) -> tuple[int, frozenset[str]] | None:
        """Return where the names that begin at `at` end, and the names; None if not known."""
        for place, run in enumerate(self._runs):
            if data.startswith(run.data, at):
                end = at + len(run.data)
                if end < len(data) and data[end] == NAME_TAG:
                    continue  # There are more.
                if place:
                    self._runs.insert(0, self._runs.pop(place))
                self.found += 1
                return end, run.names
        return None

    def keep(self, data: bytes, start: int, end: int, names: frozenset[str]) -> None:
        """Keep the names that stand in these bytes, and nothing else does."""
        if start < end <= start + MOST_BYTES:
            self._runs.insert(0, _Run(data[start:end], names))
            del self._runs[MOST_RUNS:]


NAME_RUNS = NameRuns()
"""Of the whole process, as the names are shared by all its streams (`shared_names`)."""
