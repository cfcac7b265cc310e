"""The owners of hosts, where each namespace governs its own and nothing else.

A host of the mesh's domain says it by its form: `web.a.svc.cluster.local` is of namespace a,
and not of the first to speak of it. Any other host, and any address, is of the namespaces to which
the annotations of their Namespace give it: an object that those who write in a namespace don't
write. What is said of a host without an owner holds for the clients of the namespace that says it.
The root namespace speaks for all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from istio_config import ConfigObject
from istio_config.host_patterns import has
from istio_config.kinds.kubernetes import ADDRESSES, HOSTS, listed

_ALL, _OWN, _NONE = "*", ".", "~"


@dataclass(frozen=True, kw_only=True)
class HostOwners:
    """The hosts and addresses of each namespace; if not strict, everything is everybody's."""

    is_strict: bool
    root_namespace: str
    domain: str
    """The DNS suffix of the mesh."""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns by the namespace to which they are given."""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ranges by the namespace to which they are given."""

    def govern(self, namespace: str, host: str) -> bool:
        """Return whether a host, or all hosts of a pattern, are a namespace's."""
        if not self.is_strict or namespace == self.root_namespace:
            return True
        host = host.lower().removesuffix(".")
        return host.endswith(f".{namespace}.svc.{self.domain}") or any(
            has(each, host) for each in self.hosts.get(namespace, ())
        )

    def has_address(self, namespace: str, address: str) -> bool:
        """Return whether an address or a range is a namespace's."""
        if not self.is_strict or namespace == self.root_namespace:
            return True
        given = (_network(each) for each in self.addresses.get(namespace, ()))
        return any(_within(_network(address), each) for each in given)

    def governed(self, namespace: str, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return those of some hosts that are a namespace's."""
        return tuple(each for each in hosts if self.govern(namespace, each))

    def exported(
        self,
        namespace: str,
        export_to: tuple[str, ...],
        *,
        hosts: Iterable[str],
        addresses: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Return where something is seen that is about hosts and addresses: at home if not all are.

        export_to: as its object says, or the mesh config for it.
        """
        if all(self.govern(namespace, each) for each in hosts) and all(
            self.has_address(namespace, each) for each in addresses
        ):
            return export_to
        return (_OWN,) if {_ALL, _OWN, namespace} & {*export_to} else (_NONE,)

    def is_at_home(self, namespace: str, export_to: Iterable[str]) -> bool:
        """Return whether something may be about anything: it is seen in its own namespace alone."""
        alone = {_OWN, _NONE, namespace}
        return not self.is_strict or namespace == self.root_namespace or alone.issuperset(export_to)


NO_OWNERS = HostOwners(is_strict=False, root_namespace="", domain="")
"""Those of a mesh in which everything is everybody's, as in Istio's."""


def host_owners(
    namespaces: Iterable[ConfigObject], *, root_namespace: str, domain: str
) -> HostOwners:
    """Return the owners of a strict mesh; namespaces: the objects that say them."""
    found = HostOwners(is_strict=True, root_namespace=root_namespace, domain=domain)
    hosts, addresses = dict(found.hosts), dict(found.addresses)
    for each in namespaces:
        annotations = dict(each.annotations)
        if given := listed(annotations.get(HOSTS, "")):
            hosts[each.name] = tuple(host.lower().removesuffix(".") for host in given)
        if given := listed(annotations.get(ADDRESSES, "")):
            addresses[each.name] = given
    return replace(found, hosts=hosts, addresses=addresses)


def not_governed(host: str, namespace: str) -> str:
    """Return the beginning of the sentence about a host that is not its namespace's."""
    return f'"{host}" is no host of namespace {namespace}'


@lru_cache(maxsize=4096)  # the ranges of a namespace are looked at for each of its addresses
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)


def _within(address: IPv4Network | IPv6Network, given: IPv4Network | IPv6Network) -> bool:
    if isinstance(address, IPv4Network) and isinstance(given, IPv4Network):
        return address.subnet_of(given)
    if isinstance(address, IPv6Network) and isinstance(given, IPv6Network):
        return address.subnet_of(given)
    return False
