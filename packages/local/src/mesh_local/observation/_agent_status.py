"""The status of a workload's agent, from its `GET /debug/status`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from mesh_local._errors import NoAnswer
from mesh_local.config._addresses import Inside
from mesh_local.config._plan import STATUS_PORT
from mesh_local.observation._http import fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """An agent's status at one time; None stands for what it does not have yet.

    serial: hexadecimal, as certificate tools print it.
    xds_error: why a piece of configuration was refused or the control plane is not reached.
    configuration_refused: whether it is the first of these two.
    """

    ready: bool = False
    reasons: tuple[str, ...] = ()
    spiffe_id: str | None = None
    serial: str | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None
    xds_connected: bool = False
    xds_error: str | None = None
    configuration_refused: bool = False
    envoy_state: str | None = None
    envoy_pid: int | None = None
    warming: int = 0
    """The number of clusters that Envoy has accepted and does not use yet."""


async def fetch_status(host: str | Inside, *, timeout_s: float = 2.0) -> AgentStatus | None:
    """Return the status of the agent at this address; None if it does not answer."""
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


def read_status(document: Mapping[str, object]) -> AgentStatus:
    """Return the part of the answer that is shown here."""
    certificate, xds = _mapping(document, "certificate"), _mapping(document, "xds")
    envoy, types = _mapping(document, "envoy"), _mapping(xds, "types")
    reasons = document.get("reasons")
    refusals = (_text(_mapping(types, type_url), "nack") for type_url in types)
    refusal = next(filter(None, refusals), None)
    pid, warming = envoy.get("pid"), envoy.get("warming")
    return AgentStatus(
        ready=bool(document.get("ready")),
        reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        spiffe_id=_text(document, "spiffe_id"),
        serial=_text(certificate, "serial"),
        not_before=_time(certificate, "not_before"),
        not_after=_time(certificate, "not_after"),
        xds_connected=bool(xds.get("connected")),
        xds_error=refusal or _text(xds, "last_error"),
        configuration_refused=refusal is not None,
        envoy_state=_text(envoy, "state"),
        envoy_pid=pid if isinstance(pid, int) else None,
        warming=warming if isinstance(warming, int) else 0,
    )


def _mapping(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _text(document: Mapping[str, object], key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) else None


def _time(document: Mapping[str, object], key: str) -> datetime | None:
    text = _text(document, key)
    return None if text is None else datetime.fromisoformat(text)
