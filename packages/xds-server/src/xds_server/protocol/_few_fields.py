"""The fields of a message that has few of them, by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh_protowire import WireError, fields, number_of

_BYTES = 2
_MOST = 12
"""Of more fields the library's parser is quicker than reading one by one."""


def few_fields(data: bytes) -> Mapping[int, Sequence[bytes]]:
    """Return all fields of bytes, strings and messages. Raises WireError, also for many fields."""
    found: dict[int, list[bytes]] = {}
    for number, kind, _, start, end in fields(data, at_most=_MOST):
        if kind == _BYTES:
            found.setdefault(number, []).append(data[start:end])
    return found


def text_in(found: Sequence[bytes] | None) -> str:
    """Return a string; of several the last counts. Raises WireError."""
    try:
        return found[-1].decode() if found else ""
    except UnicodeDecodeError:
        raise WireError("a string is not UTF-8") from None


def number_in(data: bytes, number: int) -> int:
    """Return an `int32` of a message. Raises WireError."""
    low = number_of(data, number) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
