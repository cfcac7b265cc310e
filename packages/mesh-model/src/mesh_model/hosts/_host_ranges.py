"""Values by host name or wildcard, found by a wildcard without looking at every one of them."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeVar

from istio_config.host_patterns import has
from mesh_model.hosts._host_index import HostIndex

_T = TypeVar("_T")


class HostRanges(Generic[_T]):
    """Values by host name; a lookup costs what it finds."""

    def __init__(self, values: Iterable[tuple[str, _T]]) -> None:
        """values: by host, in small letters."""
        by_host: dict[str, list[_T]] = {}
        for host, value in values:
            by_host.setdefault(host, []).append(value)
        self._by_host: Mapping[str, list[_T]] = by_host

    def within(self, pattern: str) -> Iterator[_T]:
        """Yield the values of all hosts that a pattern has: itself, if it is no wildcard."""
        if not pattern.startswith("*"):
            yield from self._by_host.get(pattern, ())
            return
        if pattern == "*":
            for values in self._by_host.values():
                yield from values
            return
        suffix = pattern[:0:-1]
        for index in range(bisect_left(self._reversed, suffix), len(self._reversed)):
            if not self._reversed[index].startswith(suffix):
                return
            host = self._reversed[index][::-1]
            if has(pattern, host):
                yield from self._by_host[host]

    def overlapping(self, pattern: str) -> Iterator[_T]:
        """Yield the values of all hosts and wildcards that have a host in common with a pattern."""
        yield from self.within(pattern)
        for wider in self._wildcards.matching(pattern):
            for host in wider:
                # Those that the pattern has are yielded already; an index takes * for no text, too.
                if has(host, pattern) and not has(pattern, host):
                    yield from self._by_host[host]

    @cached_property
    def _reversed(self) -> list[str]:
        """All hosts backwards, sorted, so that those of one wildcard are next to each other."""
        return sorted(host[::-1] for host in self._by_host)

    @cached_property
    def _wildcards(self) -> HostIndex[str]:
        return HostIndex((host, host) for host in self._by_host if host.startswith("*"))
