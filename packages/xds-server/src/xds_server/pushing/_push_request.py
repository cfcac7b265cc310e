"""What changed: the request for a push, and how two of them become one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple


class ConfigKey(NamedTuple):
    """One piece of configuration that changed."""

    kind: str
    name: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """A change that clients may have to hear of.

    `configs_updated` empty means that everything may have changed. `full` unset says that the
    change is of what is named only and adds or removes nothing that others refer to, as when
    endpoints change: such changes are gathered by themselves and may overtake others. `started` is
    when the oldest change in it happened, on the monotonic clock. Immutable, as many clients share
    one.
    """

    full: bool = True
    configs_updated: frozenset[ConfigKey] = frozenset()
    reasons: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)
    changed: bool = True
    """False: it turned out that nothing did, and nobody is pushed to."""

    def merge(self, other: PushRequest) -> PushRequest:
        """One request for both changes. "Everything" absorbs; reasons are kept once each."""
        if not (self.changed and other.changed):
            return self if self.changed else other
        everything = not self.configs_updated or not other.configs_updated
        return PushRequest(
            full=self.full or other.full,
            configs_updated=frozenset()
            if everything
            else self.configs_updated | other.configs_updated,
            reasons=tuple(dict.fromkeys(self.reasons + other.reasons)),
            started=min(self.started, other.started),
        )


NOTHING_CHANGED = PushRequest(full=False, changed=False)
"""What a store returns for a change that changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """How many changes a server was told of, and how many of them are done with.

    `committed` are those whose push has been built and queued, or whose build failed; once it is
    quiet the two are equal.
    """

    inbound: int = 0
    committed: int = 0

    @property
    def pending(self) -> int:
        """Changes still being gathered or built."""
        return self.inbound - self.committed
