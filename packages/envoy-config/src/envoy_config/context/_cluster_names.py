"""Finds the clusters of some hosts among the names that a client watches.

The names of a watch are sorted by host when they are first looked through, so that a push costs
what changed, and not what its clients watch.
"""

from bisect import bisect_left, insort

from envoy_config.plan._envoy_names import parse_outbound_cluster, parse_sni_cluster
from xds_server import ByIdentity

_FEW = 16
"""Of one host in fewer names than so many, all of them are looked at; and with no more other names
than so many a watch is not sorted again."""


class ClusterNames:
    """The names of each watch, in the order of their hosts, for as long as a client has it."""

    def __init__(self) -> None:
        self._by_host: ByIdentity[frozenset[str], list[str]] = ByIdentity()
        self._last: list[str] = []
        self.sorted = 0
        """How many watches were sorted, for tests."""

    def select(self, hosts: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
        """Return those of the wanted clusters that lead to one of the hosts."""
        if len(wanted) < _FEW * len(hosts):
            return frozenset(name for name in wanted if _leads_to(name, hosts))
        names = self._by_host.get(wanted)
        if names is None:
            self._last = names = self._sort(wanted)
            self._by_host.keep(wanted, names)
        found = []
        for host in hosts:
            at = bisect_left(names, host, key=_last_part)
            while at < len(names) and _last_part(names[at]) == host:
                if _leads_to(names[at], hosts):
                    found.append(names[at])
                at += 1
        return frozenset(found)

    def _sort(self, wanted: frozenset[str]) -> list[str]:
        """Return the names of a watch by host, where they can be of those sorted last."""
        known = self._last
        come = wanted.difference(known)
        if len(come) <= _FEW and len(known) + len(come) - len(wanted) <= _FEW:
            names = list(filter(wanted.__contains__, known))
            for each in come:
                insort(names, each, key=_last_part)
            return names
        self.sorted += 1
        return sorted(wanted, key=_last_part)


def _last_part(name: str) -> str:
    by_sni = parse_sni_cluster(name)
    return name.rpartition("|")[2] if by_sni is None else by_sni.host


def _leads_to(name: str, hosts: frozenset[str]) -> bool:
    parsed = parse_outbound_cluster(name) or parse_sni_cluster(name)
    return parsed is not None and parsed.host in hosts
