"""Requests that end their stream: each is counted, and the first of a peer is logged.

A client that is refused comes back at once with the same request, again and again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import grpc

from mesh_lifecycle import Clock
from mesh_listening import LogLimiter
from xds_server._errors import BadRequest
from xds_server.streams._admission import Peer

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

_QUIET_S = 60.0


class BadRequests:
    """The requests that one server has refused."""

    def __init__(self, metrics: Metrics, *, clock: Clock) -> None:
        self._metrics = metrics
        self._log_limiter = LogLimiter(quiet_s=_QUIET_S, now=clock.monotonic)

    def record(self, bad: BadRequest, peer: str, *, client: str | None = None) -> None:
        """Count a request of a peer, which `peer_name` names, and log the first."""
        self._metrics.bad_requests.inc(bad.code.name.lower())
        if self._log_limiter.begins(f"{bad.code.name} {peer}"):
            log.warning(
                "requests refused",
                extra={
                    "peer": peer,
                    "client": client,
                    "code": bad.code.name,
                    "reason": bad.message,
                },
            )


def missing_request(max_request_bytes: int) -> BadRequest:
    """Return the error of a stream that ended without a request."""
    return BadRequest(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "the stream ended before its first request, as it does when that is larger than"
        f" {max_request_bytes} bytes (max_request_bytes)",
    )


def peer_name(peer: Peer) -> str:
    """Return one name for all connections of a host, or of a process on a Unix socket."""
    if peer.process is not None:
        return f"process {peer.process.pid}"
    return peer.address.rpartition(":")[0] or peer.address
