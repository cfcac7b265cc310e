"""Facts about this machine, without a name service: the network may not be there yet."""

from __future__ import annotations

from ipaddress import ip_address

from mesh_traffic_capture.config import HostFacts, IPAddress
from mesh_traffic_capture.kernel._files import read_text
from mesh_traffic_capture.kernel._routing import addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os


def look_up_facts(*, etc: str | os.PathLike[str] = "/etc") -> HostFacts:
    """Return the facts that settings depend on; raises `CaptureFailed`.

    Users and groups are those of the files passwd and group.
    """
    reachable = [address for address, others_can in addresses() if others_can]
    return HostFacts(
        has_ipv4=any(address.version == 4 for address in reachable),
        has_ipv6=any(address.version == 6 for address in reachable),
        dns_servers=_servers(_text(f"{etc}/resolv.conf")),
        users=_ids(_text(f"{etc}/passwd")),
        groups=_ids(_text(f"{etc}/group")),
    )


def _text(file: str) -> str:
    try:
        return read_text(file)
    except OSError:
        return ""


def _servers(text: str) -> tuple[IPAddress, ...]:
    servers = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            try:
                servers.append(ip_address(words[1].partition("%")[0]))
            except ValueError:
                continue
    return tuple(dict.fromkeys(servers))


def _ids(text: str) -> dict[str, int]:
    ids: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isascii() and fields[2].isdecimal():
            ids.setdefault(fields[0], int(fields[2]))
    return ids
