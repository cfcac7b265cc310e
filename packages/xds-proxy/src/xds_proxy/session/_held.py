"""The resources of one type that Envoy has: the index that reconnects, status and CSDS read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from xds_proxy.protocol._dialect import Dialect
from xds_proxy.protocol._resources import names_and_removed_of, names_of_whole_state

WHOLE_STATE = frozenset(
    {
        "type.googleapis.com/envoy.config.listener.v3.Listener",
        "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    }
)
"""In state of the world, a response of these types has all resources: others are gone.

They are also the types of which Envoy tries each resource of a response by itself, and so has the
others when it refuses some.
"""

_FEW = 64


class Contents(NamedTuple):
    """Names and versions in one response. In state of the world the version is the response's."""

    versions: Mapping[str, str]
    removed: tuple[str, ...]


def contents_of(dialect: Dialect, response: bytes, version: str) -> Contents:
    """Read a response; in a thread if it is large. Raises WireError."""
    if dialect.resources_are_wrapped:
        names, removed = names_and_removed_of(response)
        return Contents(dict(names), removed)
    return Contents(dict.fromkeys(names_of_whole_state(response), version), ())


class Held(NamedTuple):
    """The version of a resource that Envoy has, and when it accepted it (Unix time)."""

    version: str
    at: float


class _InDoubt(NamedTuple):
    """The version that Envoy had, before it may have got another one."""

    before: Held
    version: str


class HeldResources:
    """The resources of one type by name. Objects are shared, as there may be 100 000 of them."""

    __slots__ = ("_in_doubt", "_named", "_prune_at")

    def __init__(self) -> None:
        self._named: dict[str, Held] = {}
        self._in_doubt: dict[str, _InDoubt] = {}
        self._prune_at = _FEW

    def __len__(self) -> int:
        return len(self._named)

    def __contains__(self, name: str) -> bool:
        return name in self._named

    @property
    def versions(self) -> Mapping[str, str]:
        """Version by name."""
        return {name: held.version for name, held in self._named.items()}

    @property
    def names(self) -> frozenset[str]:
        """The names."""
        return frozenset(self._named)

    def snapshot(self) -> Mapping[str, Held]:
        """Return what is held at this moment."""
        return dict(self._named)

    def replace(
        self, versions: Mapping[str, str], *, besides: Iterable[str] = (), at: float
    ) -> None:
        """Envoy has these resources and no others, but as before those named `besides`."""
        before = self._named
        self._in_doubt.clear()
        self._named = {name: before[name] for name in besides if name in before}
        self.add(versions, at=at)

    def add(self, versions: Mapping[str, str], *, at: float) -> None:
        """Envoy has these resources too."""
        known: dict[str, Held] = {}
        for name, version in versions.items():
            held = known.get(version)
            if held is None:
                held = known[version] = Held(version, at)
            self._named[name] = held
        if self._in_doubt:
            self._settle(versions)

    def discard(self, names: Iterable[str]) -> None:
        """Envoy no longer has these resources."""
        for name in names:
            self._named.pop(name, None)
            self._in_doubt.pop(name, None)

    def doubt(self, versions: Mapping[str, str], *, at: float) -> None:
        """Envoy has each of these resources in this version or as before, if it had it before."""
        unknown = Held("", at)
        for name, version in versions.items():
            held = self._named.get(name)
            if held is None:
                continue
            self._named[name] = unknown
            if held.version:
                self._in_doubt[name] = _InDoubt(held, version)
            elif name in self._in_doubt and self._in_doubt[name].version != version:
                del self._in_doubt[name]  # it is one of three, and stays unknown

    def refused_alone(self, versions: Mapping[str, str]) -> None:
        """Envoy has none of these resources in this version."""
        for name, version in versions.items():
            doubt = self._in_doubt.get(name)
            if doubt is not None and doubt.version == version:
                self._named[name] = doubt.before
                del self._in_doubt[name]

    def _settle(self, names: Iterable[str]) -> None:
        for name in names:
            self._in_doubt.pop(name, None)

    def filter(self, keeps: Callable[[str], bool]) -> None:
        """Keep only some resources, by their names."""
        self._named = {name: held for name, held in self._named.items() if keeps(name)}
        self._settle([name for name in self._in_doubt if name not in self._named])

    def prune(self, names: Callable[[], frozenset[str]]) -> None:
        """Keep only these names, if there are many more than after the last time."""
        if len(self._named) > self._prune_at:
            self.keep(names())
            self._prune_at = max(_FEW, 2 * len(self._named))

    def keep(self, names: frozenset[str]) -> None:
        """Keep only these names; with none of them, all."""
        if names and "*" not in names:
            self._named = {name: held for name, held in self._named.items() if name in names}
            self._settle([name for name in self._in_doubt if name not in self._named])
