"""The status of a workload's agent, from its `GET /debug/status`."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mesh_local.config._plan import STATUS_PORT
from mesh_local.observation._http import NoAnswer, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """An agent's status at one time; None stands for what it does not have yet.

    serial: hexadecimal, as certificate tools print it.
    xds_error: why a piece of configuration was refused or the control plane is not reached.
    """

    ready: bool = False
    reasons: tuple[str, ...] = ()
    spiffe_id: str | None = None
    serial: str | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None
    xds_connected: bool = False
    xds_error: str | None = None
    envoy_state: str | None = None
    envoy_pid: int | None = None


async def fetch_status(host: str, *, timeout_s: float = 2.0) -> AgentStatus | None:
    """Returns the status of the agent at this address; None if it does not answer."""
    try:
        answer = await fetch(host, STATUS_PORT, target="/debug/status", timeout_s=timeout_s)
    except NoAnswer:
        return None
    if answer.status != 200:
        return None
    try:
        return read_status(json.loads(answer.body))
    except (ValueError, TypeError, AttributeError):
        return None


def read_status(document: dict[str, Any]) -> AgentStatus:
    """Returns the part of the answer that is shown here."""
    certificate = document.get("certificate") or {}
    xds = document.get("xds") or {}
    envoy = document.get("envoy") or {}
    refused = (known.get("nack") for known in (xds.get("types") or {}).values())
    return AgentStatus(
        ready=bool(document.get("ready")),
        reasons=tuple(map(str, document.get("reasons") or ())),
        spiffe_id=document.get("spiffe_id"),
        serial=certificate.get("serial"),
        not_before=_time(certificate.get("not_before")),
        not_after=_time(certificate.get("not_after")),
        xds_connected=bool(xds.get("connected")),
        xds_error=next(filter(None, refused), None) or xds.get("last_error"),
        envoy_state=envoy.get("state"),
        envoy_pid=envoy.get("pid"),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
