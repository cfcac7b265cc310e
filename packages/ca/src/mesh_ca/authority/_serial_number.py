"""Serial numbers of leaves, which tell when the holder last gave another proof than a certificate.

A serial number consists of a mark, that moment in Unix seconds, and random bits. An extension would
need a registered object identifier; one below 2.25, which anyone may use, is beyond what Go's
parser and others read.
"""

import secrets
from datetime import UTC, datetime

from cryptography import x509

_RANDOM_BITS = 104
_MOMENT_BITS = 32
_MARK = 0x4D41
"""Positive, and the whole of 19 bytes where RFC 5280 section 4.1.2.2 allows 20."""


def random_serial_number() -> int:
    """Return a random serial number, for a root."""
    return secrets.randbits(128) or 1


def serial_number(proven_at: datetime) -> int:
    """Return a new serial number that tells this moment."""
    moment = min(max(int(proven_at.timestamp()), 0), (1 << _MOMENT_BITS) - 1)
    return (_MARK << _MOMENT_BITS | moment) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def proven_at(leaf: x509.Certificate) -> datetime:
    """Return when the holder of a certificate last gave another proof than a certificate.

    If the serial number does not tell, it is when the certificate began to be valid.
    """
    begins = leaf.not_valid_before_utc
    mark, moment = divmod(leaf.serial_number >> _RANDOM_BITS, 1 << _MOMENT_BITS)
    if mark != _MARK:
        return begins
    return datetime.fromtimestamp(moment, UTC)
