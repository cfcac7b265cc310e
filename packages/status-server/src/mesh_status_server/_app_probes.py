"""Checks the application for a caller that can't reach it itself: the kubelet, as a rule.

With mutual TLS before the application the kubelet has no certificate to show, so its probes come
here, and this process makes them from the inside. Source of paths and status codes: Istio's agent,
https://istio.io/latest/docs/ops/configuration/mesh/app-health-check/
"""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from mesh_lifecycle import RepeatLog
from mesh_status_server._errors import TooManyError
from mesh_status_server._slots import Slots
from mesh_status_server.http._messages import Reply, Request, Response

if TYPE_CHECKING:
    from mesh_probes import Probe

log = logging.getLogger("mesh_status_server")

PROBE_SOURCES = ("127.0.0.6", "::6")
"""Addresses that Istio's iptables rules let pass, so that a probe reaches the application."""
_MOST_AT_ONCE = 128
_MOST_OF_ONE_PEER = 32


class AppProbes:
    """Answers at the paths of probes: with the application's status, or 500 and the reason.

    probes: by path.
    host: where the application listens.
    status_port: the port that requests arrive at; in their Host the application's takes its place.
    sources: addresses to connect from, see `mesh_probes.check`.
    """

    def __init__(
        self,
        probes: "Mapping[str, Probe]",
        *,
        host: str,
        status_port: int,
        sources: Sequence[str] = PROBE_SOURCES,
    ) -> None:
        self._probes = probes
        self._host = host
        self._status_port = status_port
        self._sources = sources
        self._slots = Slots(_MOST_AT_ONCE, each_peer=_MOST_OF_ONE_PEER)
        self._failing = RepeatLog(log, "a probe of the application fails")

    async def answer(self, request: Request) -> Reply:
        """Check the application once; a path without a probe gets 400."""
        from mesh_probes import check

        probe = self._probes.get(request.path)
        if probe is None:
            known = ", ".join(self._probes) or "none"
            reason = f"there is no probe at this path; there are {known}\n"
            return Response.text(reason, HTTPStatus.BAD_REQUEST)
        try:
            async with self._slots.taken(request.peer, within_s=probe.timeout_s):
                outcome = await check(
                    probe,
                    host=self._host,
                    sources=self._sources,
                    headers=request.headers,
                    status_port=self._status_port,
                )
        except TooManyError as error:
            return Response.text(f"too many probes: {error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if outcome.healthy:
            self._failing.ended(request.path)
        else:
            facts = {"path": request.path}
            self._failing.happened(request.path, reason=outcome.reason, facts=facts)
        body = outcome.body or f"{outcome.reason}\n".encode() * (not outcome.healthy)
        return Response(status=outcome.status, body=body)
