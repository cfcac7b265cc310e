"""Values by host name or wildcard, found by the most specific name that matches a host.

A lookup costs as many steps as wildcards have different lengths, however many names there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

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
