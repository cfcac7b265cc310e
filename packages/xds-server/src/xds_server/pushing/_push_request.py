"""The request for a push: what changed, and why; two requests merge into one."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

_MOST_REASONS = 10
_LONGEST_REASON = 256


class ConfigKey(NamedTuple):
    """One piece of configuration that changed."""

    kind: str
    name: str
    namespace: str


class _Reasons(NamedTuple):
    """The first reasons for a push, and how many there are besides."""

    texts: tuple[str, ...]
    more: int


class PushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A change that clients may have to hear of.

    `configs_updated` empty means that everything may have changed. An `incremental` change is one
    of the named resources only, and adds or removes nothing that others refer to, as when endpoints
    change (the opposite of what Istio calls a full push): such changes are gathered by themselves
    and may overtake others. `triggers` are the kinds of events behind the request, each a word of a
    fixed set, as the metric `pilot_push_triggers` has a label for each. `reasons` say in short
    texts what happened; none stand for the config keys (`kind/namespace/name`), or for the triggers
    where there are no keys. `started` is when the oldest change in it happened, on the monotonic
    clock. Immutable, as many clients share one.
    """

    incremental: bool = False
    configs_updated: frozenset[ConfigKey] = frozenset()
    triggers: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    more_reasons: int = 0
    """How many reasons were left out when requests with many were merged."""
    started: float = msgspec.field(default_factory=time.monotonic)
    changed: bool = True
    """False: nothing has changed after all, and no client is pushed to."""

    def merge(self, other: PushRequest) -> PushRequest:
        """One request for both changes; "everything" absorbs. Equal reasons are kept once."""
        if not (self.changed and other.changed):
            return self if self.changed else other
        everything = not self.configs_updated or not other.configs_updated
        if everything or self.reasons or other.reasons:
            reasons = _merge(self._all_reasons(), other._all_reasons())
        else:
            reasons = _Reasons((), 0)  # which stand for the config keys still
        return PushRequest(
            incremental=self.incremental and other.incremental,
            configs_updated=frozenset()
            if everything
            else self.configs_updated | other.configs_updated,
            triggers=tuple(dict.fromkeys(self.triggers + other.triggers)),
            reasons=reasons.texts,
            more_reasons=reasons.more,
            started=min(self.started, other.started),
        )

    def described_reasons(self) -> tuple[str, ...]:
        """The reasons for people to read: ten at most, and the number of the others."""
        texts, more = self._all_reasons()
        return (*texts, f"and {more} more") if more else texts

    def _all_reasons(self) -> _Reasons:
        if self.reasons:
            return _first(self.reasons, more=self.more_reasons)
        if not self.configs_updated:
            return _first(self.triggers)
        # In an order of their own, so that equal requests are described in equal words.
        first = heapq.nsmallest(_MOST_REASONS, self.configs_updated)
        texts = ("/".join(filter(None, (key.kind, key.namespace, key.name))) for key in first)
        return _first(texts, more=len(self.configs_updated) - len(first))


def _first(texts: Iterable[str], *, more: int = 0) -> _Reasons:
    distinct = tuple(dict.fromkeys(text[:_LONGEST_REASON] for text in texts))
    left_out = max(0, len(distinct) - _MOST_REASONS)
    return _Reasons(distinct[:_MOST_REASONS], more + left_out)


def _merge(one: _Reasons, other: _Reasons) -> _Reasons:
    return _first(one.texts + other.texts, more=one.more + other.more)


NOTHING_CHANGED = PushRequest(incremental=True, changed=False)
"""The request that a store returns for a change that changes nothing."""


class Updates(msgspec.Struct, frozen=True, kw_only=True):
    """How many changes a server was notified of, and how many of them are done with.

    `committed` are those whose push has been built and queued, or whose build failed; once it is
    quiet the two are equal.
    """

    inbound: int = 0
    committed: int = 0

    @property
    def pending(self) -> int:
        """Changes still being gathered or built."""
        return self.inbound - self.committed
