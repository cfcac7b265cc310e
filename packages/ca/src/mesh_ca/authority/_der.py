"""As much DER (X.690) as assembling a certificate takes."""

from datetime import datetime

BOOLEAN_TRUE = b"\x01\x01\xff"
_FIRST_GENERALIZED_YEAR = 2050  # RFC 5280 section 4.1.2.5


def tlv(tag: int, *contents: bytes) -> bytes:
    """An element: tag, length, contents."""
    body = contents[0] if len(contents) == 1 else b"".join(contents)
    length = len(body)
    if length < 0x80:
        return b"%c%c%b" % (tag, length, body)
    if length < 0x100:
        return b"%c\x81%c%b" % (tag, length, body)
    if length < 0x10000:
        return b"%c\x82%c%c%b" % (tag, length >> 8, length & 0xFF, body)
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return b"%c%c%b%b" % (tag, 0x80 | len(octets), octets, body)


def sequence(*contents: bytes) -> bytes:
    """A SEQUENCE of elements."""
    return tlv(0x30, *contents)


def integer(value: int) -> bytes:
    """An INTEGER, zero or above."""
    return tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def object_identifier(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER from its usual notation."""
    first, second, *rest = map(int, dotted.split("."))
    octets = bytearray()
    for arc in (40 * first + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        octets += bytes(reversed(groups))
    return tlv(0x06, bytes(octets))


def octet_string(content: bytes) -> bytes:
    """An OCTET STRING."""
    return tlv(0x04, content)


def bit_string(content: bytes) -> bytes:
    """A BIT STRING of whole octets."""
    return tlv(0x03, b"\x00", content)


def time(when: datetime) -> bytes:
    """A certificate's Time, `when` in UTC."""
    # Not by strftime: it takes three times as long.
    rest = (when.month, when.day, when.hour, when.minute, when.second)
    if when.year < _FIRST_GENERALIZED_YEAR:
        return b"\x17\x0d%02d%02d%02d%02d%02d%02dZ" % (when.year % 100, *rest)
    return b"\x18\x0f%04d%02d%02d%02d%02d%02dZ" % (when.year, *rest)
