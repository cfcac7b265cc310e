"""Any text as resolv.conf, as an upstream's address, and as a name table in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mesh_dnsproxy import JsonNameTable, NameTableError, parse_resolv_conf, parse_upstream


def check(data: bytes) -> None:
    """A resolv.conf always has a result; an address and a table are read or refused in words."""
    text = data[1:].decode("utf-8", "surrogateescape")
    match data[0] % 3 if data else 0:
        case 0:
            found = parse_resolv_conf(text)
            for server in found.nameservers:
                assert 0 < server.port < 1 << 16
        case 1:
            try:
                parse_upstream(text)
            except ValueError as error:
                assert "address" in str(error)
        case _:
            try:
                list(JsonNameTable(text).items())
            except NameTableError as error:
                assert str(error)


def originals() -> Iterator[bytes]:
    """Files as they are found on machines, and a table of a mesh."""
    yield b"\0nameserver 10.0.0.10\nsearch a.svc.cluster.local svc.cluster.local\noptions ndots:5\n"
    yield b"\0domain example.com\r\nnameserver fe80::1%eth0 # a comment\nsortlist 1.2.3.4\n"
    for address in ("10.0.0.1", "10.0.0.1:5353", "[::1]:53", "10.0.0.1#5353", "fe80::1%lo"):
        yield b"\1" + address.encode()
    host = {"ips": ["10.0.0.1"], "registry": "Kubernetes", "shortname": "web", "namespace": "ns"}
    yield b"\2" + json.dumps({"table": {"web.ns.svc.cluster.local": host, "a.b": {}}}).encode()
