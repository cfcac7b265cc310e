"""The hosts that a namespace owns, where namespaces are strict, and the services that it sees.

In Istio any namespace may define a service or routes for any host. With strict namespaces only its
owner may do so for the whole mesh; configuration of other namespaces applies to their own clients
alone. `web.a.svc.cluster.local` is owned by namespace a. Any other host, and any address, is owned
by the namespaces whose Namespace object lists it in an annotation: who may write objects in a
namespace usually may not write that one. The root namespace owns everything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from istio_config import ConfigObject
from istio_config.host_patterns import has
from istio_config.kinds.kubernetes import ADDRESSES, HOSTS, listed
from mesh_model._services import Registry, Service

_ALL, _OWN, _NONE = "*", ".", "~"


@dataclass(frozen=True, kw_only=True)
class HostOwners:
    """The hosts and addresses that each namespace owns; if not strict, each owns everything."""

    is_strict: bool
    root_namespace: str
    domain: str
    """The DNS suffix of the mesh."""
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Patterns by the namespace to which they are given."""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ranges by the namespace to which they are given."""

    def owns(self, namespace: str, host: str) -> bool:
        """Return whether a namespace owns a host, or all hosts of a pattern."""
        if not self.is_strict or namespace == self.root_namespace:
            return True
        host = host.lower().removesuffix(".")
        return host.endswith(f".{namespace}.svc.{self.domain}") or any(
            has(each, host) for each in self.hosts.get(namespace, ())
        )

    def has_address(self, namespace: str, address: str) -> bool:
        """Return whether a namespace owns an address, or a whole range."""
        if not self.is_strict or namespace == self.root_namespace:
            return True
        given = (_network(each) for each in self.addresses.get(namespace, ()))
        return any(_within(_network(address), each) for each in given)

    def owned(self, namespace: str, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return the hosts that a namespace owns."""
        return tuple(each for each in hosts if self.owns(namespace, each))

    def exported(
        self,
        namespace: str,
        export_to: tuple[str, ...],
        *,
        hosts: Iterable[str],
        addresses: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Return the effective exportTo of an object that defines hosts and addresses.

        Its own namespace alone, unless that owns all of them. export_to: its own, or mesh config's.
        """
        if all(self.owns(namespace, each) for each in hosts) and all(
            self.has_address(namespace, each) for each in addresses
        ):
            return export_to
        return (_OWN,) if {_ALL, _OWN, namespace} & {*export_to} else (_NONE,)

    def is_at_home(self, namespace: str, export_to: Iterable[str]) -> bool:
        """Return whether an object with this exportTo can affect no other namespace."""
        alone = {_OWN, _NONE, namespace}
        return not self.is_strict or namespace == self.root_namespace or alone.issuperset(export_to)


NO_OWNERS = HostOwners(is_strict=False, root_namespace="", domain="")
"""The owners in a mesh without strict namespaces, as Istio's are."""


def host_owners(
    namespaces: Iterable[ConfigObject], *, root_namespace: str, domain: str
) -> HostOwners:
    """Return the owners in a strict mesh; namespaces: the Namespaces with the annotations."""
    found = HostOwners(is_strict=True, root_namespace=root_namespace, domain=domain)
    hosts, addresses = dict(found.hosts), dict(found.addresses)
    for each in namespaces:
        annotations = dict(each.annotations)
        if given := listed(annotations.get(HOSTS, "")):
            hosts[each.name] = tuple(host.lower().removesuffix(".") for host in given)
        if given := listed(annotations.get(ADDRESSES, "")):
            addresses[each.name] = given
    return replace(found, hosts=hosts, addresses=addresses)


def foreign_host(host: str, namespace: str) -> str:
    """Return the beginning of the message about a host that the namespace does not own."""
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


def visible_services(services: Iterable[Service], namespace: str) -> dict[str, Service]:
    """Return the services that are exported to a namespace, by host.

    Of several services of one host, the namespace's own comes first, then one of Kubernetes, then
    the oldest.
    """
    found: dict[str, Service] = {}
    for service in services:
        if not service.visible_in(namespace):
            continue
        known = found.get(service.host)
        if known is None:
            found[service.host] = service
        elif is_preferred(service, known, namespace):
            del found[service.host]  # it comes in its own place
            found[service.host] = service
    return found


def is_preferred(service: Service, older: Service, namespace: str) -> bool:
    """Return whether a namespace takes a service rather than an older one of the same host."""
    if namespace in (service.namespace, older.namespace):
        return service.namespace == namespace
    return service.registry is Registry.KUBERNETES and older.registry is not Registry.KUBERNETES
