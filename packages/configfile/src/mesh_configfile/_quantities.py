"""Quantities as Kubernetes writes them: `32Mi`, `1.5Gi`, `500M`.

Source: Kubernetes' resource.Quantity, limited to numbers of bytes: no milli, micro or nano, and no
exponents.
"""

_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
    "Pi": 1 << 50,
    "Ei": 1 << 60,
}
_MOST = 2**63 - 1
_MAX_CHARACTERS = 40


class QuantityError(ValueError):
    """A text that is no quantity; the message has examples."""


def parse_bytes(text: str) -> int:
    """Read a number of bytes, rounded up to a whole one; raises `QuantityError`."""
    stripped = text.strip()
    unit = stripped.lstrip("0123456789.")
    whole, _, fraction = stripped.removesuffix(unit).partition(".")
    if (
        unit not in _UNITS
        or "." in fraction
        or not (whole or fraction)
        or len(stripped) > _MAX_CHARACTERS
    ):
        raise QuantityError(
            f"{text[:_MAX_CHARACTERS]!r} is not a number of bytes such as 32Mi, 1.5Gi or 500M"
        )
    digits = int((whole or "0") + fraction)
    parts: int = 10 ** len(fraction)
    size = -(-digits * _UNITS[unit] // parts)
    if size > _MOST:
        raise QuantityError(f"{text!r} is more than {_MOST} bytes, the most there can be")
    return size
