"""The errors of reading a message."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that are no message, or a message beyond a bound of the reader."""


class BeyondLimit(WireError):
    """A message beyond a bound of the reader, such as its number of fields; the text tells which.

    It may be a good message all the same.
    """
