"""Virtual addresses that are allocated to services without addresses of their own.

As in Istio they come from 240.240.0.0/16, which is routed nowhere, and 2001:2::/48; no IPv4 address
ends in 0 or 255. Namespace and host decide at which address the search begins: a service has the
same address whatever other services there are, or the next free one. A service that has an address
keeps it while others come and go.

Source: Istio's VIP auto-allocation (PILOT_ENABLE_IP_AUTOALLOCATE).
"""

import hashlib
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from istio_config.addresses import is_ip

Key = tuple[str, str]
"""Namespace and host."""

NO_AUTO_ADDRESS_LABEL = "networking.istio.io/enable-autoallocate-ip"
"""A ServiceEntry with this label and the value `false` gets none."""

_ROWS, _COLUMNS = 256, 254
_ROOM = _ROWS * _COLUMNS
_IPV4 = int(IPv4Address("240.240.0.0"))
_IPV6 = int(IPv6Address("2001:2::f0f0:0"))


def allocate(
    wanted: Iterable[Key], *, given: Iterable[str] = (), before: Mapping[Key, int] | None = None
) -> Mapping[Key, int]:
    """Return each service's offset in the range; those beyond its 65 024 addresses have none.

    wanted: oldest first. given: addresses that users gave to services, which are not allocated.
    before: the offsets of the previous model; services keep theirs.
    """
    wanted = tuple(wanted)
    taken = {offset for each in given if (offset := _offset(each)) is not None}
    found: dict[Key, int] = {}
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


def _first_free(key: Key, taken: set[int]) -> int:
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
