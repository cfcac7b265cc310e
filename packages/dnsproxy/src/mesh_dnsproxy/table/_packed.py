"""A host's entry, packed into one bytes object.

A table may have tens of thousands of hosts, and lives long. The garbage collector does not visit
bytes, and they take a quarter of the memory of the objects that they are packed from.

Layout: a byte of flags, the numbers of IPv4 and IPv6 addresses, the addresses, then texts.
"""

import struct
from collections.abc import Sequence
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

from mesh_dnsproxy.table._name_table import NameEntry, Port

_HEAD = struct.Struct("!BHH")
_ADDRESSES = _HEAD.size
SHORTENABLE = 1
"""The host is SHORT.NAMESPACE.DOMAIN of the Kubernetes registry, so it has short names."""
_BETWEEN = "\0"
_BETWEEN_ITEMS = "\1"
_BETWEEN_PARTS = "\2"
_SEPARATORS = str.maketrans("", "", "\0\1\2")
_MOST_ADDRESSES = 65535


def pack_addresses(texts: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
    """Return the IPv4 and the IPv6 addresses, each once, in order; other texts are left out."""
    v4: list[bytes] = []
    v6: list[bytes] = []
    for text in texts:
        try:
            if ":" in text:
                v6.append(inet_pton(AF_INET6, text))
            else:
                v4.append(inet_pton(AF_INET, text))
        except (OSError, ValueError):
            continue
    if len(v4) > 1:
        v4 = list(dict.fromkeys(v4))[:_MOST_ADDRESSES]
    if len(v6) > 1:
        v6 = list(dict.fromkeys(v6))[:_MOST_ADDRESSES]
    return v4, v6


def pack(host: str, entry: NameEntry, v4: list[bytes], v6: list[bytes], *, flags: int) -> bytes:
    """Pack an entry into bytes."""
    _, registry, short_name, namespace, alternates, ports = entry
    if not f"{registry}{short_name}{namespace}".isprintable():
        registry, short_name, namespace = (
            each.translate(_SEPARATORS) for each in (registry, short_name, namespace)
        )
    others = _BETWEEN_ITEMS.join(alternates) if alternates else ""
    port_texts = _BETWEEN_ITEMS.join(map(_port_text, ports)) if ports else ""
    texts = f"{host}\0{registry}\0{short_name}\0{namespace}\0{others}\0{port_texts}"
    head = _HEAD.pack(flags, len(v4), len(v6))
    return b"".join((head, *v4, *v6, texts.encode("utf-8", "surrogatepass")))


def _port_text(port: Port) -> str:
    protocol, name = port.protocol.translate(_SEPARATORS), port.name.translate(_SEPARATORS)
    return _BETWEEN_PARTS.join((str(port.number), protocol, name))


def is_shortenable(packed: bytes) -> bool:
    """Return whether the host has short names."""
    return bool(packed[0] & SHORTENABLE)


def addresses_v4(packed: bytes) -> list[bytes]:
    """Return the IPv4 addresses, 4 bytes each."""
    _, count, _ = _HEAD.unpack_from(packed)
    return [packed[at : at + 4] for at in range(_ADDRESSES, _ADDRESSES + 4 * count, 4)]


def addresses_v6(packed: bytes) -> list[bytes]:
    """Return the IPv6 addresses, 16 bytes each."""
    _, before, count = _HEAD.unpack_from(packed)
    start = _ADDRESSES + 4 * before
    return [packed[at : at + 16] for at in range(start, start + 16 * count, 16)]


def unpack(packed: bytes) -> tuple[str, NameEntry]:
    """Return the host and its entry, as they were packed."""
    _, v4, v6 = _HEAD.unpack_from(packed)
    texts = packed[_ADDRESSES + 4 * v4 + 16 * v6 :].decode("utf-8", "surrogatepass").split(_BETWEEN)
    host, registry, short_name, namespace, alternates, _ = texts
    shown = [
        *(inet_ntop(AF_INET, each) for each in addresses_v4(packed)),
        *(inet_ntop(AF_INET6, each) for each in addresses_v6(packed)),
    ]
    return host, NameEntry(
        addresses=tuple(shown),
        registry=registry,
        short_name=short_name,
        namespace=namespace,
        alternate_hosts=tuple(filter(None, alternates.split(_BETWEEN_ITEMS))),
        ports=ports(packed),
    )


def ports(packed: bytes) -> tuple[Port, ...]:
    """Return the ports; empty if they are not known."""
    last = packed.rsplit(_BETWEEN.encode(), 1)[1].decode("utf-8", "surrogatepass")
    return tuple(_port(each) for each in last.split(_BETWEEN_ITEMS) if each)


def _port(text: str) -> Port:
    number, protocol, name = text.split(_BETWEEN_PARTS)
    return Port(int(number), name, protocol)
