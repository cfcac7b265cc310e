"""The hosts of a mesh's services, as rules name them: by name, or by a wildcard.

It holds nothing of the services themselves: they have other endpoints in the next model.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from istio_config.host_patterns import has
from mesh_model import Service


@dataclass(frozen=True)
class KnownHosts:
    """The hosts of all services."""

    ports: Mapping[str, frozenset[int]]
    """By host, the numbers of the ports of all its services."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The hosts of ExternalName services, with those of the services that they stand for."""

    @classmethod
    def build(cls, services: Iterable[Service]) -> "KnownHosts":
        """Return the hosts of these services."""
        found: dict[str, frozenset[int]] = {}
        aliases: dict[str, str] = {}
        for service in services:
            ports = frozenset([port.number for port in service.ports])
            known = found.get(service.host)
            found[service.host] = ports if known is None else known | ports
            aliases.update((alias, service.host) for _, alias in service.aliases)
        return cls(found, aliases)

    def differing(self, other: "KnownHosts") -> frozenset[str]:
        """Return the hosts that two meshes do not have alike, with the same ports."""
        if self is other or self == other:
            return frozenset()
        changed = {host for host, _ in self.ports.items() ^ other.ports.items()}
        changed.update(host for host, _ in self.aliases.items() ^ other.aliases.items())
        return frozenset(changed)

    def aliases_of(self, hosts: AbstractSet[str]) -> frozenset[str]:
        """Return the hosts of ExternalName services that stand for services of these hosts."""
        return frozenset(alias for alias, host in self.aliases.items() if host in hosts)

    def real(self, host: str) -> str:
        """Return the host for which another stands; itself, if it stands for none."""
        return self.aliases.get(host, host)

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
