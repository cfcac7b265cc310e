"""The hosts of a mesh's services, as rules name them: by name, or by a wildcard.

It holds nothing of the services themselves: they have other endpoints in the next model.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from istio_config.host_patterns import has
from mesh_model import Service


@dataclass(frozen=True)
class KnownHosts:
    """The hosts of all services."""

    ports: Mapping[str, frozenset[int]]
    """By host, the numbers of the ports of all its services."""

    @classmethod
    def build(cls, services: Iterable[Service]) -> "KnownHosts":
        """Return the hosts of these services."""
        found: dict[str, frozenset[int]] = {}
        for service in services:
            ports = frozenset([port.number for port in service.ports])
            known = found.get(service.host)
            found[service.host] = ports if known is None else known | ports
        return cls(found)

    def differing(self, other: "KnownHosts") -> frozenset[str]:
        """Return the hosts that two meshes do not have alike, with the same ports."""
        if self is other or self.ports == other.ports:
            return frozenset()
        return frozenset(host for host, _ in self.ports.items() ^ other.ports.items())

    def have(self, host: str) -> bool:
        """Return whether there is a service of this host, or a wildcard that has it."""
        return host in self.ports or any(has(each, host) for each in self._wildcards)

    def have_any_of(self, wildcard: str) -> bool:
        """Return whether the host of some service is the wildcard, or one of its hosts."""
        end = wildcard[1:][::-1]
        at = bisect_left(self._backwards, end)
        return at < len(self._backwards) and self._backwards[at].startswith(end)

    @cached_property
    def _wildcards(self) -> tuple[str, ...]:
        return tuple(each for each in self.ports if each.startswith("*"))

    @cached_property
    def _backwards(self) -> list[str]:
        """All hosts from their ends, in order; without the asterisks of wildcards."""
        return sorted(each.removeprefix("*")[::-1] for each in self.ports)


NO_HOSTS = KnownHosts({})
"""Those of a mesh without services."""
