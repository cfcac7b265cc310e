"""The `status` command: asks a running agent for its status and prints it as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from mesh_agent_cli._errors import CliError
from mesh_agent_cli._http import NotHttp, Unanswered, local_url, send

_TIMEOUT_S = 5.0
_TYPE_PREFIX = "type.googleapis.com/"


def fetch_status(*, address: str, port: int) -> Mapping[str, object]:
    """Ask the agent's /debug/status. Raises CliError."""
    url = local_url(address, port, "debug/status")
    try:
        answer = send("GET", url, timeout_s=_TIMEOUT_S)
    except NotHttp as error:
        raise CliError(
            f"cannot ask the agent for its status: {error}: is it a mesh-agent?"
        ) from None
    except Unanswered as error:
        raise CliError(f"cannot ask the agent for its status: {error}: is it running?") from None
    if answer.status != 200:
        said = _one_line(answer.body[:500].decode("utf-8", "replace"))
        raise CliError(
            f"cannot ask the agent for its status: {url} answered {answer.status}"
            + (f": {said}" if said else "")
        )
    try:
        status = json.loads(answer.body)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        raise CliError(f"{url} did not answer with a JSON object: is it a mesh-agent?")
    return status


def render_status(status: Mapping[str, object], *, now: datetime) -> str:
    """Returns the status as a table for people; unknown and missing entries do no harm."""
    certificate, xds = _mapping(status, "certificate"), _mapping(status, "xds")
    envoy = _mapping(status, "envoy")
    rows = [
        ("workload", _text(status.get("workload"))),
        ("ready", _ready(status)),
        ("SPIFFE id", _text(status.get("spiffe_id"))),
        ("certificate", _certificate(certificate, now)),
        *_certificate_troubles(certificate, _mapping(status, "token")),
        ("Envoy", _envoy(envoy)),
        *_envoy_history(envoy),
        ("control plane", _control_plane(xds)),
        *_learned_roots(_mapping(status, "learned_roots")),
    ]
    lines = list(_columns(rows))
    types = {
        name.removeprefix(_TYPE_PREFIX): entry
        for name, entry in sorted(_mapping(xds, "types").items())
        if isinstance(entry, dict)
    }
    if types:
        lines += ["", *_types(types)]
    return "\n".join(lines)


def _types(types: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """A line for each resource type, and why it was last pushed where the control plane says so."""
    rows = [
        (name, _text(entry.get("version")), _verdict(entry), _push_reasons(entry))
        for name, entry in types.items()
    ]
    if any(reasons for *_, reasons in rows):
        return _columns([("TYPE", "VERSION", "STATE", "LAST PUSH"), *rows])
    return _columns([("TYPE", "VERSION", "STATE"), *(row[:3] for row in rows)])


def _push_reasons(entry: Mapping[str, object]) -> str:
    reasons = entry.get("push_reasons")
    return _one_line(", ".join(map(str, reasons))) if isinstance(reasons, list) else ""


def _ready(status: Mapping[str, object]) -> str:
    if status.get("ready") is True:
        return "yes"
    reasons = status.get("reasons")
    if isinstance(reasons, dict):
        reasons = [f"{name}: {reason}" for name, reason in reasons.items()]
    said = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
    return f"no ({said})" if said else "no"


def _certificate(certificate: Mapping[str, object], now: datetime) -> str:
    serial = _text(certificate.get("serial"))
    if serial == "-" and "last_error" in certificate:
        return "NONE"
    ends = certificate.get("not_after")
    try:
        moment = datetime.fromisoformat(str(ends))
    except ValueError:
        return serial
    left = int((moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())
    word = f"expires in {_duration(left)}" if left >= 0 else f"EXPIRED {_duration(-left)} ago"
    return f"{serial}, {word} ({ends})"


def _certificate_troubles(
    certificate: Mapping[str, object], token: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Why there is no certificate or will be none, as far as that is known."""
    if certificate.get("last_error"):
        yield "  last attempt", f"FAILED, trying again: {_one_line(certificate['last_error'])}"
    if token.get("fault"):
        yield "  token", f"{_text(token.get('path'))} {_one_line(token['fault'])}"


def _envoy(envoy: Mapping[str, object]) -> str:
    parts = [_text(envoy.get("state"))]
    parts += [
        f"{name} {envoy[name]}"
        for name in ("pid", "epoch", "restarts", "refused", "crashes")
        if envoy.get(name) is not None
    ]
    if retiring := envoy.get("retiring"):
        parts.append(f"older ones finishing requests {retiring}")
    return ", ".join(parts)


def _envoy_history(envoy: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Why Envoy last ended by itself, and why a restart was last refused; if ever."""
    for name in ("last_crash", "last_refusal"):
        if envoy.get(name):
            yield f"  {name.replace('_', ' ')}", _one_line(envoy[name])


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _control_plane(xds: Mapping[str, object]) -> str:
    if "connected" not in xds:
        return "-"
    since = f" since {xds['since']}" if xds.get("since") else ""
    if xds["connected"] is True:
        return f"connected{since}"
    reason = f": {xds['last_error']}" if xds.get("last_error") else ""
    return f"not connected{since}{reason}"


def _learned_roots(learned: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Roots learned beyond the root file, and the problem with the file that keeps them; if any."""
    if learned.get("roots"):
        yield "  also trusted", _one_line(learned["roots"])
    if learned.get("problem"):
        yield "  PROBLEM", _one_line(learned["problem"])


def _verdict(entry: Mapping[str, object]) -> str:
    if entry.get("nack"):
        return f"REFUSED: {entry['nack']}"
    return "accepted" if entry.get("acked") else "sent"


def _duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} d"


def _mapping(status: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = status.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()
