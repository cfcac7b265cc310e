"""The records of a host in the table.

A and AAAA records are in another order for each query, so that clients spread over the addresses;
the CNAME of an alias stays first. SRV, HTTPS and PTR are built from the ports and addresses.
"""

import socket
import struct
from collections.abc import Iterator
from itertools import cycle, repeat

from mesh_dnsproxy.message import _codes as codes
from mesh_dnsproxy.message._answer import QUESTION_POINTER, answer_tail
from mesh_dnsproxy.message._codes import AAAA, CNAME, HTTPS, IN, PTR, SRV, A
from mesh_dnsproxy.message._names import to_wire
from mesh_dnsproxy.message._query import HEADER_BYTES, Query
from mesh_dnsproxy.table._compiled import CompiledTable, Hit
from mesh_dnsproxy.table._name_table import Port
from mesh_dnsproxy.table._packed import addresses_v4, addresses_v6, ports, unpack

_FIXED = struct.Struct("!HHIH")
_SRV = struct.Struct("!HHH")
_SVC_PARAMETER = struct.Struct("!HH")
_IP4_HINT, _IP6_HINT, _PORT = 4, 6, 3
_READY_ORDERS = 8
"""With up to so many addresses, each order is built once; with more, one for each query."""
_MOST_HINTS = 8
_WEB_PORT = 443
_TLS_WEB = frozenset({"HTTPS"})
_REVERSE_V4 = b"\x07in-addr\x04arpa\0"
_REVERSE_V6 = b"\x03ip6\x04arpa\0"
_HEX = frozenset(b"0123456789abcdef")


def address_answers(query: Query, hit: Hit, limit: int, *, ttl_s: int) -> Iterator[bytes]:
    """Return endless answers to a query for A or AAAA, each in the next order."""
    addresses = addresses_v4(hit.entry) if query.qtype == A else addresses_v6(hit.entry)
    if not addresses:
        return repeat(answer_tail(query, (), limit))
    first: list[bytes] = []
    owner = QUESTION_POINTER
    if hit.target is not None:
        first = [_record(QUESTION_POINTER, CNAME, ttl_s, hit.target)]
        # The addresses point to the target in the CNAME's data (compression, RFC 1035).
        at = HEADER_BYTES + len(query.question) + len(QUESTION_POINTER) + _FIXED.size
        owner = (0xC000 | at).to_bytes(2, "big")
    records = [_record(owner, query.qtype, ttl_s, address) for address in addresses]
    if len(records) == 1:
        return repeat(answer_tail(query, first + records, limit))
    if len(records) <= _READY_ORDERS:
        orders = [records[start:] + records[:start] for start in range(len(records))]
        return cycle([answer_tail(query, first + order, limit) for order in orders])
    return _rotated(query, first, records, limit)


def _rotated(query: Query, first: list[bytes], records: list[bytes], limit: int) -> Iterator[bytes]:
    start = 0
    while True:
        yield answer_tail(query, first + records[start:] + records[:start], limit)
        start = (start + 1) % len(records)


def other_answer(table: CompiledTable, query: Query, limit: int, *, ttl_s: int) -> bytes | None:
    """Return the answer to SRV, HTTPS or PTR; None: the table has none, an upstream may."""
    match query.qtype:
        case _ if query.qclass != IN:
            return None
        case codes.SRV:
            return _service_answer(table, query, limit, ttl_s)
        case codes.HTTPS:
            return _https_answer(table, query, limit, ttl_s)
        case codes.PTR:
            return _pointer_answer(table, query, limit, ttl_s)
        case _:
            return None


def _service_answer(table: CompiledTable, query: Query, limit: int, ttl_s: int) -> bytes | None:
    """Return the port of that name, for `_NAME._PROTOCOL.HOST`, as in Kubernetes' DNS."""
    split = underscored(query.name)
    if split is None:
        return None
    (name, transport), rest = split
    hit = table.find(rest)
    if hit is None:
        return None
    target = to_wire(unpack(hit.entry)[0])
    if target.startswith(b"\x01*"):
        target = rest
    records = [
        _record(QUESTION_POINTER, SRV, ttl_s, _SRV.pack(0, 100, port.number) + target)
        for port in ports(hit.entry)
        if port.name.lower() == name and _transport(port) == transport
    ]
    if not records:
        return None
    return answer_tail(query, records, limit, additionals=_address_records(target, hit, ttl_s))


def _address_records(owner: bytes, hit: Hit, ttl_s: int) -> list[bytes]:
    v4 = [_record(owner, A, ttl_s, address) for address in addresses_v4(hit.entry)]
    return v4 + [_record(owner, AAAA, ttl_s, address) for address in addresses_v6(hit.entry)]


def _https_answer(table: CompiledTable, query: Query, limit: int, ttl_s: int) -> bytes | None:
    """An HTTPS record tells clients to use TLS (RFC 9460), so only a port that has it gets one.

    For a host whose ports are known and have no TLS, the answer has no record: an upstream need not
    be asked.
    """
    wanted = _WEB_PORT
    name = query.name
    split = underscored(name)
    if split is not None:
        (number, scheme), name = split
        if scheme != "https" or not number.isdigit() or len(number) > 5:
            return None
        wanted = int(number)
    hit = table.find(name)
    if hit is None:
        return None
    known = ports(hit.entry)
    if not known:
        return None
    records = []
    if hit.target is not None and split is None:
        records.append(_record(QUESTION_POINTER, CNAME, ttl_s, hit.target))
    owner = QUESTION_POINTER if hit.target is None or split is not None else hit.target
    served = [p for p in known if p.number == wanted and p.protocol.upper() in _TLS_WEB]
    if not served:
        return answer_tail(query, records, limit)
    target = b"\0" if split is None else name
    data = b"".join((b"\0\1", target, *_parameters(hit.entry, wanted)))
    return answer_tail(query, [*records, _record(owner, HTTPS, ttl_s, data)], limit)


def _parameters(entry: bytes, port: int) -> Iterator[bytes]:
    if port != _WEB_PORT:
        yield _SVC_PARAMETER.pack(_PORT, 2) + port.to_bytes(2, "big")
    for key, addresses in (
        (_IP4_HINT, addresses_v4(entry)),
        (_IP6_HINT, addresses_v6(entry)),
    ):
        if addresses:
            hints = b"".join(addresses[:_MOST_HINTS])
            yield _SVC_PARAMETER.pack(key, len(hints)) + hints


def _pointer_answer(table: CompiledTable, query: Query, limit: int, ttl_s: int) -> bytes | None:
    address = _reversed_address(query.name)
    names = table.reverse.get(address) if address else None
    if names is None:
        return None
    records = [_record(QUESTION_POINTER, PTR, ttl_s, name) for name in _split_names(names)]
    return answer_tail(query, records, limit)


def _split_names(names: bytes) -> Iterator[bytes]:
    start = position = 0
    while position < len(names):
        length = names[position]
        position += 1 + length
        if not length:
            yield names[start:position]
            start = position


def _reversed_address(name: bytes) -> bytes | None:
    if name.endswith(_REVERSE_V4):
        parts = _labels(name[: -len(_REVERSE_V4)])
        if len(parts) != 4:
            return None
        try:
            return socket.inet_pton(socket.AF_INET, b".".join(reversed(parts)).decode())
        except (OSError, ValueError):
            return None
    if name.endswith(_REVERSE_V6):
        parts = _labels(name[: -len(_REVERSE_V6)])
        if len(parts) != 32 or any(len(part) != 1 or part[0] not in _HEX for part in parts):
            return None
        return bytes.fromhex(b"".join(reversed(parts)).decode())
    return None


def _labels(name: bytes) -> list[bytes]:
    parts = []
    position = 0
    while position < len(name):
        length = name[position]
        parts.append(name[position + 1 : position + 1 + length])
        position += 1 + length
    return parts


def underscored(name: bytes) -> tuple[tuple[str, str], bytes] | None:
    """Split `_first._second.` off a name; None without it."""
    found = []
    position = 0
    for _ in range(2):
        length = name[position]
        label = name[position + 1 : position + 1 + length]
        if not label.startswith(b"_"):
            return None
        found.append(label[1:].decode("latin-1"))
        position += 1 + length
    return (found[0], found[1]), name[position:]


def _transport(port: Port) -> str:
    return "udp" if port.protocol.upper() in ("UDP", "QUIC") else "tcp"


def _record(owner: bytes, kind: int, ttl_s: int, data: bytes) -> bytes:
    return owner + _FIXED.pack(kind, IN, ttl_s, len(data)) + data
