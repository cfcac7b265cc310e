"""Host names in rules: completed from short names, and values found by host or wildcard.

`reviews` in namespace `a` means `reviews.a.svc.cluster.local`. `HostIndex` finds the most specific
name that matches a host, `HostRanges` all hosts that a wildcard matches, without a scan of all.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeVar

from istio_config.addresses import is_ip
from istio_config.host_patterns import has


def full_host(host: str, namespace: str, domain: str) -> str:
    """Return the host that a rule of a namespace means, in small letters.

    domain: the DNS suffix of the mesh. A name with a dot in it, a wildcard and an
    IP address are taken as they are.
    """
    host = host.lower()
    if not host or "." in host or host.startswith("*") or is_ip(host):
        return host
    return f"{host}.{namespace}.svc.{domain}"


_T = TypeVar("_T")


class HostIndex(Generic[_T]):
    """Values by host name: a concrete one comes before wildcards, a longer wildcard before others.

    `*.b` matches every host that ends in `.b`; a wildcard host is matched by itself and by
    shorter wildcards.
    """

    def __init__(self, values: Iterable[tuple[str, _T]] = ()) -> None:
        """values: by host, in small letters; of one host, all values are kept in order."""
        exact: dict[str, list[_T]] = {}
        suffixes: dict[str, list[_T]] = {}
        for host, value in values:
            if host.startswith("*"):
                suffixes.setdefault(host[1:], []).append(value)
            else:
                exact.setdefault(host, []).append(value)
        self._exact: Mapping[str, tuple[_T, ...]] = {key: tuple(v) for key, v in exact.items()}
        self._suffixes: Mapping[str, tuple[_T, ...]] = {
            key: tuple(v) for key, v in suffixes.items()
        }
        self._lengths = tuple(sorted({len(each) for each in suffixes}, reverse=True))

    def edited(self, values: Mapping[str, tuple[_T, ...]]) -> "HostIndex[_T]":
        """Return an index in which some hosts have other values; without any, they are not there.

        Costs no more than two copies of a dict.
        """
        found: HostIndex[_T] = HostIndex()
        exact, suffixes = dict(self._exact), dict(self._suffixes)
        for host, of_host in values.items():
            where, key = (suffixes, host[1:]) if host.startswith("*") else (exact, host)
            if of_host:
                where[key] = of_host
            else:
                where.pop(key, None)
        found._exact, found._suffixes = exact, suffixes
        found._lengths = tuple(sorted({len(each) for each in suffixes}, reverse=True))
        return found

    def most_specific(self, host: str) -> tuple[_T, ...]:
        """Return the values of the most specific name that matches a host."""
        return next(self.matching(host), ())

    def matching(self, host: str) -> Iterator[tuple[_T, ...]]:
        """Yield the values of each name that matches a host, the most specific name first."""
        if host.startswith("*"):
            host = host[1:]
        elif (found := self._exact.get(host)) is not None:
            yield found
        for length in self._lengths:
            if length > len(host):
                continue
            found = self._suffixes.get(host[len(host) - length :])
            if found is not None:
                yield found


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
