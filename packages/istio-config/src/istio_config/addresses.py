"""Host names, IP addresses and socket paths, as configuration spells them."""

import ipaddress
import re

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE)
MAX_HOST_LENGTH = 253
UNIX = "unix://"


def is_ip(text: str) -> bool:
    """Return whether this is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_network(text: str) -> bool:
    """Return whether this is a range such as 10.0.0.0/8; bits below its prefix may be set."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def plain_address(text: str) -> str:
    """Spell a range of one address, such as 10.0.0.1/32, as that address.

    Another range is spelt without the bits below its prefix: 10.0.0.1/8 is 10.0.0.0/8.
    """
    if "/" not in text or not is_network(text):
        return text
    network = ipaddress.ip_network(text, strict=False)
    return str(network.network_address if network.num_addresses == 1 else network)


def is_host(text: str) -> bool:
    """Return whether this is a host name without wildcard."""
    if not text or len(text) > MAX_HOST_LENGTH:
        return False
    return all(_LABEL.fullmatch(label) for label in text.split("."))


def is_host_pattern(text: str) -> bool:
    """Return whether this is a host name, whose first label may be `*`."""
    return is_host(text.removeprefix("*."))


def socket_path(address: str) -> str | None:
    """Return the path of a `unix://` address."""
    return address.removeprefix(UNIX) if address.startswith(UNIX) else None


def bracketed(address: str) -> str:
    """Return an address as it is written before `:port`."""
    return f"[{address}]" if ":" in address else address


def split_host_port(text: str) -> tuple[str, int]:
    """Take `host:port` apart (`:8080` has an empty host); raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: put the IPv6 address in brackets")
    return host, int(port)


def peer_ip(text: str) -> str:
    """Return the IP address of a peer as gRPC prints it, `ipv4:10.0.0.1:4711`; "" without one."""
    kind, _, rest = text.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    host = rest.rpartition(":")[0].removeprefix("[").removesuffix("]").partition("%")[0]
    return host if is_ip(host) else ""
