"""Requests that end their stream: each is counted, and logged if it is no repeat.

A client that is refused comes back at once with the same request, again and again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import grpc

from mesh_lifecycle import Clock, RepeatLog
from xds_server._errors import BadRequest

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)


class BadRequests:
    """The requests that one server has refused."""

    def __init__(self, metrics: Metrics, *, clock: Clock) -> None:
        self._metrics = metrics
        self._log = RepeatLog(log, "requests refused", now=clock.monotonic)

    def record(self, bad: BadRequest, peer: str, *, client: str | None = None) -> None:
        """Count a request of a peer, which `holder_of` names, and log it if it is no repeat."""
        self._metrics.bad_requests.inc(bad.code.name.lower())
        facts = {"peer": peer, "client": client, "code": bad.code.name, "reason": bad.message}
        # Not by its reason, which has numbers of the request in it.
        self._log.happened(f"{peer} {bad.code.name}", facts=facts)


def missing_request(max_request_bytes: int) -> BadRequest:
    """Return the error of a stream that ended without a request."""
    return BadRequest(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "the stream ended before its first request, as it does when that is larger than"
        f" {max_request_bytes} bytes (max_request_bytes)",
    )
