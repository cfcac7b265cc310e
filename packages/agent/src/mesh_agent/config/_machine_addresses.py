"""The machine's own IP addresses, for workloads whose platform does not set INSTANCE_IP."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915  # linux/sockios.h: an interface's IPv4 address


def machine_addresses() -> tuple[str, ...]:
    """Returns the addresses by which others can reach this machine, IPv4 first.

    Loopback, link-local and unspecified ones are left out; when nothing is left, both loopback
    addresses are returned. Linux only.
    """
    found: list[ipaddress.IPv4Address | ipaddress.IPv6Address]
    found = [*_ipv4_addresses(), *_ipv6_addresses(Path("/proc/net/if_inet6"))]
    usable = [str(address) for address in found if _is_usable(address)]
    return tuple(dict.fromkeys(usable)) or ("127.0.0.1", "::1")


def _is_usable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _ipv4_addresses() -> list[ipaddress.IPv4Address]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                found.append(ipaddress.IPv4Address(reply[20:24]))
    return found


def _ipv6_addresses(table: Path) -> list[ipaddress.IPv6Address]:
    try:
        lines = table.read_text().splitlines()
    except OSError:  # no IPv6 on this machine
        return []
    return [ipaddress.IPv6Address(bytes.fromhex(line.split()[0])) for line in lines]
