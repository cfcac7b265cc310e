"""The serial number of a leaf, read from its PEM without a library for certificates."""

import ssl
from functools import lru_cache

_END_OF_CERTIFICATE = b"-----END CERTIFICATE-----"
_BEGIN_OF_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
# RFC 5280, 4.1.2.2 allows 20 octets; some issuers use more.
_LONGEST_SERIAL_BYTES = 64


@lru_cache(maxsize=64)
def leaf_serial(chain_pem: bytes) -> str | None:
    """Return the serial number of the first certificate; None if that can't be read.

    Read from the DER by hand: a library for certificates would be a large dependency for a
    number that is only shown.
    """
    start = chain_pem.find(_BEGIN_OF_CERTIFICATE)
    end = chain_pem.find(_END_OF_CERTIFICATE, start)
    if start < 0 or end < 0:
        return None
    try:
        text = chain_pem[start : end + len(_END_OF_CERTIFICATE)].decode("ascii")
        return _serial(ssl.PEM_cert_to_DER_cert(text))
    except (ValueError, IndexError):  # not ASCII, not base64, cut short
        return None


def _serial(certificate: bytes) -> str | None:
    """Return the serial number of a DER certificate; None if it is too long.

    Certificate ::= SEQUENCE { SEQUENCE { [0] version OPTIONAL, serialNumber INTEGER, ...
    """
    _, at, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, at)
    tag, start, end = _element(certificate, at)
    if tag == 0xA0:
        tag, start, end = _element(certificate, end)
    value = certificate[start:end]
    if tag != 0x02 or not 0 < len(value) <= _LONGEST_SERIAL_BYTES:
        return None
    return f"{int.from_bytes(value, 'big', signed=True):x}"


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return an element's tag, and where its value begins and ends. Raises IndexError."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length > 0x80:
        octets = length & 0x7F
        length = int.from_bytes(data[start : start + octets], "big")
        start += octets
    if start + length > len(data):
        raise IndexError(f"element at byte {at} is cut short")
    return tag, start, start + length
