"""Whether the facts of a log record are seen, or its message alone."""

import logging
from types import NoneType

_STANDARD = (logging.Formatter, NoneType)
"""The formatter of the library, which a handler without one has, too."""


def shows_fields(log: logging.Logger) -> bool:
    """Return whether a handler of `log` may show more of a record than its message.

    In a program that has not configured logging, Python prints the message of a warning and nothing
    else of it (logging.lastResort); after `logging.basicConfig()` it has the standard formatter,
    which knows no fields of ours. A formatter of any other kind is taken to show them.
    """
    current: logging.Logger | None = log
    while current is not None:
        if any(type(each.formatter) not in _STANDARD for each in current.handlers):
            return True
        current = current.parent if current.propagate else None
    return False
