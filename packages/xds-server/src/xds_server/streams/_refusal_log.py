"""When a refused response is logged: a client that refuses one refuses the next like it, too."""

from __future__ import annotations

import logging

from xds_server.monitoring._status import Nack

log = logging.getLogger(__name__)

_ALL_LOGGED = 10
"""Refusals in a row that are logged if each has a reason of its own."""
_LOGGED_COUNTS = frozenset(10**power for power in range(1, 10))
"""Of more refusals, and of those with one reason, the 10th, 100th, 1000th and so on are logged."""


def log_refusal(nack: Nack | None, before: Nack | None, *, client: str, type_url: str) -> None:
    """Log a refusal when it is the first or has another reason, and then ever more rarely."""
    if nack is None:
        return
    same = before is not None and (before.code, before.message) == (nack.code, nack.message)
    if (same or nack.count > _ALL_LOGGED) and nack.count not in _LOGGED_COUNTS:
        return
    log.warning(
        "response refused by client",
        extra={
            "client": client,
            "type_url": type_url,
            "code": nack.code,
            "reason": nack.message,
            "times": nack.count,
        },
    )
