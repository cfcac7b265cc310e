"""The log lines of a stream: responses that were sent, refused, too large, or not read."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from xds_server.monitoring._status import Nack
from xds_server.protocol._response import Response

log = logging.getLogger(__name__)

_ALL_LOGGED = 10
"""Refusals in a row that are logged if each has a reason of its own."""
_LOGGED_COUNTS = frozenset(10**power for power in range(1, 10))
"""Of more refusals, and of those with one reason, the 10th, 100th, 1000th and so on are logged."""


def log_refusal(nack: Nack | None, before: Nack | None, *, client: str, type_url: str) -> None:
    """Log a refusal when it is the first or has another reason, and then ever more rarely.

    A client that refuses a response usually refuses the next one like it, too.
    """
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


def log_sent(response: Response, *, client: str) -> None:
    """Log a response at level DEBUG."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    log.debug(
        "response sent",
        extra={
            "client": client,
            "type_url": response.type_url,
            "nonce": response.nonce,
            "resources": len(response.resources),
            "removed": len(response.removed),
            "bytes": response.size,
        },
    )


def log_too_large(
    response: Response, *, max_message_bytes: int, client: Mapping[str, object]
) -> None:
    """Log a response that gRPC would not send; client: the facts of `Connection.log_facts`."""
    log.error(
        "response over the message limit; its client is sent away and will be back",
        extra={
            **client,
            "type_url": response.type_url,
            "resources": len(response.resources),
            "bytes": response.size,
            "max_message_bytes": max_message_bytes,
        },
    )


def log_not_read(*, waited_s: float, size: int, reason: str, client: Mapping[str, object]) -> None:
    """Log that a client was closed because it does not read; client: as for `log_too_large`."""
    log.warning(
        "client closed, it does not read",
        extra={**client, "waited_s": round(waited_s, 1), "bytes": size, "reason": reason},
    )
