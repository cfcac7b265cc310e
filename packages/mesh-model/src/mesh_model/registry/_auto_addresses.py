"""Virtual addresses that are allocated to ServiceEntries' hosts without addresses of their own.

As in Istio they come from 240.240.0.0/16, which is routed nowhere, and 2001:2::/48; no IPv4 address
ends in 0 or 255. Namespace and host decide at which address the search begins: a service has the
same address whatever other services there are, or the next free one. A service that has an address
keeps it while others come and go.

Source: Istio's VIP auto-allocation (PILOT_ENABLE_IP_AUTOALLOCATE).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from istio_config import ConfigObject
from istio_config.addresses import is_ip
from istio_config.edits import replacements
from istio_config.kinds.service_entry import Resolution, ServiceEntrySpec
from mesh_model._services import ServiceKey

NO_AUTO_ADDRESS_LABEL = "networking.istio.io/enable-autoallocate-ip"
"""A ServiceEntry with this label and the value `false` gets none."""

_ROWS, _COLUMNS = 256, 254
_ROOM = _ROWS * _COLUMNS
_IPV4 = int(IPv4Address("240.240.0.0"))
_IPV6 = int(IPv6Address("2001:2::f0f0:0"))


def allocate(
    wanted: Iterable[ServiceKey],
    *,
    given: Iterable[str] = (),
    before: Mapping[ServiceKey, int] | None = None,
) -> Mapping[ServiceKey, int]:
    """Return each service's offset in the range; those beyond its 65 024 addresses have none.

    wanted: oldest first. given: addresses that users gave to services, which are not allocated.
    before: the offsets of the previous model; services keep theirs.
    """
    wanted = tuple(wanted)
    taken = {offset for each in given if (offset := _offset(each)) is not None}
    found: dict[ServiceKey, int] = {}
    for key in wanted:
        if before is not None and (kept := before.get(key)) is not None and kept not in taken:
            found[key] = kept
            taken.add(kept)
    for key in wanted:
        if key in found:
            continue
        if len(taken) >= _ROOM:
            break
        found[key] = _first_free(key, taken)
        taken.add(found[key])
    return found


def auto_addresses(offset: int) -> tuple[str, str]:
    """Return the IPv4 and the IPv6 address at an offset."""
    row, column = divmod(offset, _COLUMNS)
    # In their shortest form: addresses are compared as texts everywhere.
    return f"240.240.{row}.{column + 1}", f"2001:2::f0f0:{row << 8 | column + 1:x}"


def _first_free(key: ServiceKey, taken: set[int]) -> int:
    """Search in steps that depend on the service too, so that searches do not follow each other."""
    digest = hashlib.sha256("/".join(key).encode()).digest()
    offset = int.from_bytes(digest[:8]) % _ROOM
    step = 1 + 2 * (int.from_bytes(digest[8:16]) % (_ROOM // 2))
    for _ in range(_ROOM):
        if offset not in taken:
            return offset
        offset = (offset + step) % _ROOM
    return next(each for each in range(_ROOM) if each not in taken)


def _offset(address: str) -> int | None:
    if not address.startswith("240.240.") and ":" not in address:
        return None  # nearly all addresses; a prefix of the text is cheaper than parsing it
    if not is_ip(address):
        return None
    parsed = ip_address(address)
    offset = int(parsed) - (_IPV4 if parsed.version == 4 else _IPV6)
    row, column = offset >> 8, (offset & 255) - 1
    return row * _COLUMNS + column if 0 <= row < _ROWS and 0 <= column < _COLUMNS else None


def allocated_addresses(
    entries: Sequence[ConfigObject],
    *,
    before: Mapping[ServiceKey, int] | None = None,
    entries_before: Sequence[ConfigObject] = (),
) -> Mapping[ServiceKey, int]:
    """Allocate offsets for the services that are to have an address and were given none.

    before: the offsets of the model before, and `entries_before` its ServiceEntries. The same
    mapping is returned if nothing changed that decides over addresses.
    """
    if before is not None and _want_the_same(entries_before, entries):
        return before
    wanted: dict[ServiceKey, bool] = {}
    given: list[str] = []
    for item in entries:
        spec = item.spec
        if isinstance(spec, ServiceEntrySpec):
            given += spec.addresses
            for host in spec.hosts:
                key = item.namespace, host.lower()
                wanted.setdefault(key, _wants_address(item, spec, host))
    return allocate(
        [key for key, wants in wanted.items() if wants],
        given=given,
        before=before,
    )


def _want_the_same(before: Sequence[ConfigObject], after: Sequence[ConfigObject]) -> bool:
    pairs = replacements(before, after)
    return pairs is not None and all(_wishes(old) == _wishes(new) for old, new in pairs)


def _wishes(item: ConfigObject) -> tuple[object, ...]:
    """Return everything that the addresses of a ServiceEntry's services depend on."""
    spec = item.spec
    if not isinstance(spec, ServiceEntrySpec):
        return ()
    return item.namespace, spec.hosts, spec.addresses, spec.resolution, item.labels


def _wants_address(item: ConfigObject, spec: ServiceEntrySpec, host: str) -> bool:
    return (
        not spec.addresses
        and spec.resolution is not Resolution.NONE
        and not host.startswith("*")
        and (NO_AUTO_ADDRESS_LABEL, "false") not in item.labels
    )
