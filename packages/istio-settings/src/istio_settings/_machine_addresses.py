"""The machine's own IP addresses, for workloads whose platform does not set INSTANCE_IP."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Collection, Mapping
from pathlib import Path

_SIOCGIFADDR = 0x8915  # linux/sockios.h: an interface's IPv4 address


_EXCLUDED = "traffic.sidecar.istio.io/excludeInterfaces"


def excluded_interfaces(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the interfaces that the pod's annotation takes out of the mesh."""
    names = annotations.get(_EXCLUDED, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def machine_addresses(*, leave_out: Collection[str] = ()) -> tuple[str, ...]:
    """Return the addresses by which others can reach this machine, IPv4 first.

    leave_out: interfaces whose addresses do not count.

    Loopback, link-local and unspecified ones are left out. When nothing is left, the loopback
    addresses that this machine has are returned: one with IPv6 alone can't bind 127.0.0.1. Both
    when it has neither, as before its interface `lo` is up. Linux only.
    """
    found: list[ipaddress.IPv4Address | ipaddress.IPv6Address]
    found = [
        *_ipv4_addresses(leave_out),
        *_ipv6_addresses(Path("/proc/net/if_inet6"), leave_out),
    ]
    usable = [str(address) for address in found if _is_usable(address)]
    loopback = [
        address for address in ("127.0.0.1", "::1") if ipaddress.ip_address(address) in found
    ]
    return tuple(dict.fromkeys(usable or loopback)) or ("127.0.0.1", "::1")


def _is_usable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _ipv4_addresses(leave_out: Collection[str]) -> list[ipaddress.IPv4Address]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            if name in leave_out:
                continue
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                found.append(ipaddress.IPv4Address(reply[20:24]))
    return found


def _ipv6_addresses(table: Path, leave_out: Collection[str]) -> list[ipaddress.IPv6Address]:
    try:
        lines = table.read_text().splitlines()
    except OSError:  # no IPv6 on this machine
        return []
    # The first column is the address, the last the interface's name.
    columns = (line.split() for line in lines)
    return [
        ipaddress.IPv6Address(bytes.fromhex(each[0]))
        for each in columns
        if each[-1] not in leave_out
    ]
