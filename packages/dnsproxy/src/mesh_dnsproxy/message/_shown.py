"""Records of a reply as text, for people: the form of zone files (RFC 1035, RFC 3597)."""

import struct
from socket import AF_INET, AF_INET6, inet_ntop
from typing import NamedTuple

from mesh_dnsproxy.message import _codes as codes
from mesh_dnsproxy.message._codes import code_name, type_name
from mesh_dnsproxy.message._names import ROOT, name_end, to_text
from mesh_dnsproxy.message._query import HEADER_BYTES
from mesh_dnsproxy.message._reply import Record, records

_MOST_JUMPS = 128
_MOST_RECORDS = 100
_NAMES = frozenset({codes.CNAME, codes.NS, codes.PTR})
_U16 = struct.Struct("!H")
_SRV = struct.Struct("!HHH")


class ShownRecord(NamedTuple):
    """One record. type: its name, as in A or TYPE64."""

    name: str
    type: str
    ttl_s: int
    data: str


class ShownReply(NamedTuple):
    """A reply as text. code: the name of its error code, NOERROR for none."""

    code: str
    answers: tuple[ShownRecord, ...]


def shown_reply(reply: bytes) -> ShownReply:
    """Return the code and the answers of a reply; raises ValueError if it is malformed."""
    if len(reply) < HEADER_BYTES:
        raise ValueError("a reply shorter than its header")
    code = code_name(reply[3] & codes.RCODE)
    position = HEADER_BYTES
    if reply[4:6] != b"\0\0":
        position = name_end(reply, position) + 4
    found = [each for each in records(reply, position) if each.section == 0]
    return ShownReply(code, tuple(_shown(reply, each) for each in found[:_MOST_RECORDS]))


def _shown(reply: bytes, record: Record) -> ShownRecord:
    name = to_text(_whole_name(reply, record.start)) or "."
    data = _data(reply, record)
    return ShownRecord(name, type_name(record.kind), record.ttl, data)


def _data(reply: bytes, record: Record) -> str:
    raw = reply[record.data : record.end]
    match record.kind:
        case codes.A if len(raw) == 4:
            text = inet_ntop(AF_INET, raw)
        case codes.AAAA if len(raw) == 16:
            text = inet_ntop(AF_INET6, raw)
        case kind if kind in _NAMES:
            text = _name(reply, record.data)
        case codes.MX if len(raw) > 2:
            text = f"{_U16.unpack_from(raw)[0]} {_name(reply, record.data + 2)}"
        case codes.SRV if len(raw) > _SRV.size:
            numbers = " ".join(map(str, _SRV.unpack_from(raw)))
            text = f"{numbers} {_name(reply, record.data + _SRV.size)}"
        case codes.TXT:
            text = _texts(raw)
        case _:
            text = f"\\# {len(raw)} {raw.hex()}".strip()
    return text


def _texts(raw: bytes) -> str:
    shown = []
    position = 0
    while position < len(raw):
        length = raw[position]
        text = raw[position + 1 : position + 1 + length].decode("ascii", "backslashreplace")
        clean = "".join(each if each.isprintable() else "?" for each in text)
        shown.append('"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"')
        position += 1 + length
    return " ".join(shown)


def _name(reply: bytes, position: int) -> str:
    return f"{to_text(_whole_name(reply, position))}."


def _whole_name(reply: bytes, position: int) -> bytes:
    """Return the name at a position, compression pointers followed (RFC 1035, section 4.1.4)."""
    labels: list[bytes] = []
    for _ in range(_MOST_JUMPS):
        try:
            length = reply[position]
            if length >= 0xC0:
                position = (length & 0x3F) << 8 | reply[position + 1]
                continue
        except IndexError:
            raise ValueError("a name without an end") from None
        label = reply[position : position + 1 + length]
        if length > 63 or len(label) != 1 + length:
            raise ValueError("a malformed name")
        if not length:
            return b"".join(labels) + ROOT
        labels.append(label)
        position += 1 + length
    raise ValueError("a name that leads to itself")
