"""The rights to register, and to report health: decided by what a proxy has proved.

It has proved its namespace and service account by a token or a certificate, and its address by the
connection that it speaks over. What its node says counts only within these bounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from envoy_config import Proxy, accounts_in
from istio_config import ConfigObject
from istio_config.kinds.workload_entry import WorkloadEntrySpec
from istio_config.kinds.workload_group import (
    ADDRESSES,
    WorkloadGroupSpec,
    is_allowed,
    registering_account,
)
from mesh_discovery.sources.registration._group_entries import GROUP, Registrant
from mesh_model import EndpointKey

ENTRY = "WORKLOAD_ENTRY"
"""The metadata of a node that names the entry of its workload in the files, as in Istio."""
_MOST_REPORTED = 16
"""Addresses of one node that its report is about."""


class MayNotRegisterError(Exception):
    """A proxy that may not be a workload of a group; the message has the reason and the remedy."""


def registrant(
    proxy: Proxy, identities: Iterable[str], group: ConfigObject, *, name: str
) -> Registrant:
    """Return what a proxy registers as one of a group; raises `MayNotRegisterError`."""
    spec = group.spec if isinstance(group.spec, WorkloadGroupSpec) else WorkloadGroupSpec()
    account = registering_account(spec)
    shown = tuple(identities)
    if account not in accounts_in(proxy.namespace, shown):
        raise MayNotRegisterError(
            f"the WorkloadGroup {proxy.namespace}/{name} is for the service account {account}, the "
            f"caller is {', '.join(shown)[:300] or 'not authenticated'}"
        )
    own = next((each for each in proxy.addresses if _is_own(each, proxy.source)), None)
    address = own or next(
        (each for each in proxy.addresses if is_allowed(each, group.annotations)), None
    )
    if address is None:
        raise MayNotRegisterError(
            f"the proxy's addresses are {', '.join(proxy.addresses)[:300]}, and its connection "
            f"comes from {proxy.source or 'an unknown address'}: it may register that one, or "
            f"others in the ranges that the annotation {ADDRESSES} of the WorkloadGroup "
            f"{proxy.namespace}/{name} names ({GROUP})"
        )
    return Registrant(
        namespace=proxy.namespace,
        group=name,
        account=account,
        address=address,
        network=proxy.location.network,
        locality=proxy.location.locality,
        by_range=own is None,
    )


def reported_endpoints(
    proxy: Proxy, identities: Iterable[str], entries: Sequence[ConfigObject]
) -> Iterator[EndpointKey]:
    """Yield the workloads of the files whose health a proxy may report.

    They have its service account and its connection's address, or it names one of its account,
    whose address then is the files' word. entries: the WorkloadEntries of the files.
    """
    accounts = sorted(accounts_in(proxy.namespace, identities))
    own = [each for each in proxy.addresses if _is_own(each, proxy.source)]
    for account in accounts:
        for address in own[:_MOST_REPORTED]:
            yield proxy.namespace, account, address
    named = proxy.metadata.get(ENTRY)
    for each in entries if isinstance(named, str) and named else ():
        if (each.namespace, each.name) == (proxy.namespace, named):
            spec = each.spec
            if isinstance(spec, WorkloadEntrySpec) and spec.service_account in accounts:
                yield proxy.namespace, spec.service_account, spec.address


def _is_own(address: str, source: str) -> bool:
    """Return whether an address is that of the connection.

    A connection over loopback is of this machine, which has all the addresses of loopback, and
    Linux takes 127.0.0.1 for its end of it whatever address the proxy has there.
    """
    if not source:
        return False
    own, peer = _plain(address), _plain(source)
    return own == peer or (own.is_loopback and peer.is_loopback)


def _plain(text: str) -> IPv4Address | IPv6Address:
    found = ip_address(text.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
