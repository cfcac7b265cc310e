"""The log lines of a stream: responses that were sent, refused, too large, or not read."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mesh_lifecycle import Clock, RepeatLog
from xds_server.monitoring._status import Nack
from xds_server.protocol._response import Response

log = logging.getLogger(__name__)


class RefusalLog:
    """Logs responses that clients refuse, and when they accept them again.

    A client that refuses a response usually refuses the next one like it, too.
    """

    def __init__(self, clock: Clock) -> None:
        self._log = RepeatLog(log, "response refused by client", now=clock.monotonic)

    def on_nack(self, nack: Nack | None, *, node: str, client: str, type_url: str) -> None:
        """Log a refusal. node: of the client, whose streams are one client here."""
        if nack is None:
            return
        facts = {"client": client, "type_url": type_url, "code": nack.code}
        self._log.happened(f"{node} {type_url}", reason=nack.message, facts=facts)

    def on_ack(self, *, node: str, type_url: str) -> None:
        """Note that a client whose last answer was a refusal accepts responses again."""
        self._log.ended(f"{node} {type_url}")


def log_response(response: Response, *, client: str) -> None:
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
