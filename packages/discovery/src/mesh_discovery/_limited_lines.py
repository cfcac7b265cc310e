"""Bounds how many lines one look at a configuration writes to the log."""

import logging
from collections.abc import Sequence
from typing import TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")
MOST_LINES = 50
"""Of one sort and one load: a file may have thousands of mistakes, and an edit moves them all."""


def first_of(found: Sequence[_T], what: str) -> Sequence[_T]:
    """Return those that are logged one by one; how many there are is logged here, if they are more.

    what: the message with which each is logged.
    """
    if len(found) > MOST_LINES:
        log.warning(
            "too many to be logged one by one, mesh-discovery status lists all",
            extra={"what": what, "count": len(found), "logged": MOST_LINES},
        )
    return found[:MOST_LINES]
