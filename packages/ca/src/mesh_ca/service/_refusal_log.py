"""The log of callers that get no certificate: each comes back again and again."""

import logging

from mesh_ca.callers._authenticator import Caller
from mesh_lifecycle import RepeatLog

log = logging.getLogger("mesh_ca")


class RefusalLog:
    """Logs refusals when they begin, now and then, and when the caller gets a certificate."""

    def __init__(self) -> None:
        self._unauthenticated = RepeatLog(log, "caller not authenticated")
        self._refused = RepeatLog(log, "certificate refused")
        self._not_ready = RepeatLog(log, "no certificates can be issued", level=logging.ERROR)

    def on_unauthenticated(self, peer: str, reason: str) -> None:
        """Note a caller that has not proved who it is. peer: its address."""
        self._unauthenticated.happened(_host(peer), reason=reason, facts={"peer": peer})

    def on_refusal(self, caller: Caller, peer: str, *, kind: str, reason: str) -> None:
        """Note a request that was not signed. kind: the error's name in the metrics."""
        facts = {"identities": caller.identities, "peer": peer, "error": kind}
        if kind == "CA_NOT_READY":  # for all callers
            self._not_ready.happened("", reason=reason, facts=facts)
        else:
            self._refused.happened(caller.identities[0], reason=reason, facts=facts)

    def on_issue(self, caller: Caller, peer: str) -> None:
        """Note that a caller has got its certificate."""
        self._unauthenticated.ended(_host(peer))
        self._refused.ended(caller.identities[0])
        self._not_ready.ended("")


def _host(peer: str) -> str:
    """Return an address without its port: each connection has another."""
    return peer.rpartition(":")[0] or peer
