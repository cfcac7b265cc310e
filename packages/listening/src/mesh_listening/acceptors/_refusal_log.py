"""Counts and logs the connections that a port refuses, or ends for what they did.

Refusing has one line in the log when it begins and one when it is over, however many connections
are refused in between.
"""

import asyncio
import logging
from collections.abc import Mapping

from mesh_lifecycle import RepeatLog
from mesh_listening.limits._admission import Admission
from mesh_listening.limits._refusals import Ended, Reason, Refusals
from mesh_listening.sockets._peers import PeerCredentials

log = logging.getLogger("mesh_listening")

_QUIET_S = 5.0


class RefusalLog:
    """The refused connections of one port. listener: its name in the log."""

    def __init__(self, listener: str, admission: Admission) -> None:
        self._listener = listener
        self._admission = admission
        self._refusals = Refusals(quiet_s=_QUIET_S)
        self._not_allowed = RepeatLog(log, "peer refused")
        self._not_known = RepeatLog(
            log, "cannot tell whether a peer is allowed, refusing it", level=logging.ERROR
        )
        self._timer: asyncio.TimerHandle | None = None

    @property
    def totals(self) -> Mapping[Reason, int]:
        """The number of connections since the start, by reason; 0 for a reason without any."""
        return self._refusals.totals

    def record(self, reason: Reason, peer: str) -> None:
        """Count a connection that was refused or ended, and log it if refusing begins with it."""
        loop = asyncio.get_running_loop()
        if not self._refusals.begins(reason, peer, now=loop.time()):
            return
        log.warning(
            "refusing connections",
            extra={
                "listener": self._listener,
                "reason": reason.value,
                "peer": peer,
                "of_peer": self._admission.connections_of(peer),
                "open": self._admission.open_connections,
            },
        )
        if self._timer is None:
            self._timer = loop.call_later(_QUIET_S, self._log_ended)

    def count(self, reason: Reason) -> None:
        """Count a connection that was refused or ended; the caller logs it."""
        self._refusals.totals[reason] += 1

    def record_not_allowed(self, peer: PeerCredentials, reason: str) -> None:
        """Count a process that may not connect; those of a user are one to the log."""
        self.count(Reason.NOT_ALLOWED)
        self._not_allowed.happened(
            f"uid {peer.uid} gid {peer.gid}",
            facts={
                "listener": self._listener,
                "reason": reason,
                "pid": peer.pid,
                "uid": peer.uid,
                "gid": peer.gid,
                "refused_so_far": self._refusals.totals[Reason.NOT_ALLOWED],
            },
        )

    def record_not_known(self, fault: Exception) -> None:
        """Count a process that is refused as the check of it failed."""
        self.count(Reason.NOT_ALLOWED)
        self._not_known.happened("", facts={"listener": self._listener}, fault=fault)

    def close(self) -> None:
        """Log the end of what is still being refused."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._log_ended(all_of_them=True)

    def _log_ended(self, *, all_of_them: bool = False) -> None:
        loop = asyncio.get_running_loop()
        for each in self._refusals.ended(now=loop.time(), all_of_them=all_of_them):
            self._log_one_ended(each)
        at = self._refusals.next_end()
        self._timer = None if at is None else loop.call_at(at, self._log_ended)

    def _log_one_ended(self, each: Ended) -> None:
        log.warning(
            "no longer refusing connections",
            extra={
                "listener": self._listener,
                "reason": each.reason.value,
                "refused": each.refused,
                "peers": each.peers,
                "lasted_s": each.lasted_s,
                "open": self._admission.open_connections,
            },
        )
