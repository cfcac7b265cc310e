"""Any bytes as a chain whose serial number is shown: a number, or none."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress

from cryptography import x509

from mesh_sds.secrets._leaf_serial import leaf_serial

_PEM = b"-----BEGIN CERTIFICATE-----\n%b-----END CERTIFICATE-----\n"


def check(data: bytes) -> None:
    """It is the number that the library for certificates finds."""
    pem = _PEM % base64.encodebytes(data[1:]) if data[:1] == b"d" else data[1:]
    serial = leaf_serial(pem)
    assert serial is None or int(serial, 16) is not None
    with suppress(ValueError, TypeError, x509.InvalidVersion):
        expected = x509.load_pem_x509_certificate(pem).serial_number
        assert serial is None or int(serial, 16) == expected


def originals() -> Iterator[bytes]:
    """The beginning of a certificate, with and without a version."""
    yield b"d\x30\x0c\x30\x0a\xa0\x03\x02\x01\x02\x02\x03\x01\x02\x03"
    yield b"d\x30\x07\x30\x05\x02\x03\x01\x02\x03"
    yield b"p" + _PEM % base64.encodebytes(b"\x30\x82\x00\x07\x30\x05\x02\x03\x7f\x02\x03")
