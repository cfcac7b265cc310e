"""The `status` screen: a running agent's identity, Envoy and configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from mesh_agent_cli._errors import CliError
from mesh_agent_cli._http import fetch_object, local_url
from mesh_agent_cli.screens._fields import (
    mapping,
    moment,
    number,
    objects,
    seconds_between,
    sequence,
    short_serial,
    shown_time,
    text,
)
from mesh_agent_cli.screens._resource_types import resource_types, spoken
from mesh_agent_cli.screens._terminal import Row, Screen, Tone, rows
from mesh_agent_cli.screens._wasm import wasm_rows
from mesh_agent_cli.screens._wellness import is_unasked, is_without_envoy
from mesh_command_line import span

_SHORT = 60
"""An error that is longer stands on the screen once."""
_DENYING = frozenset({"denied", "left"})
"""What was done about an extension that Envoy lacks, if it keeps requests from being served."""
_NEARLY_S = 600
"""An outage that is nearer than this is shown as a doubt."""


def fetch_status(*, address: str, port: int) -> Mapping[str, object]:
    """Ask the agent's /debug/status. Raises CliError."""
    url = local_url(address, port, "debug/status")
    return fetch_object(url, purpose="ask the agent for its status", program="a mesh-agent")


def is_ready_without_envoy(*, address: str, port: int) -> bool:
    """Ask the agent whether it is ready, and has no Envoy whose answer would count."""
    try:
        status = fetch_status(address=address, port=port)
    except CliError:
        return False
    return status.get("ready") is True and is_without_envoy(status)


def render_status(status: Mapping[str, object], *, now: datetime, out: Screen | None = None) -> str:
    """Return the screen; unknown and missing entries do no harm."""
    out = out or Screen()
    lines = list(rows(_rows(status, now), out))
    types = list(resource_types(mapping(mapping(status, "xds"), "types"), now, out))
    return "\n".join([*lines, "", *types] if types else lines)


def _rows(status: Mapping[str, object], now: datetime) -> Iterator[Row]:
    yield Row("workload", text(status, "workload") or "-")
    yield _agent(status, now)
    yield from _readiness(status)
    yield Row("SPIFFE id", text(status, "spiffe_id") or "-")
    yield from _certificate(status, now)
    yield from _envoy(mapping(status, "envoy"))
    yield _proxy_configs(mapping(status, "proxy_configs"))
    yield from _adaptations(status)
    yield from _control_plane(status, now)
    yield from wasm_rows(mapping(status, "wasm"), now)
    yield from _dns(mapping(status, "names"))
    yield from _health_check(mapping(status, "health_check"), now)
    yield _details("token exchange", mapping(status, "token_exchange"))


def _agent(status: Mapping[str, object], now: datetime) -> Row:
    agent = mapping(status, "agent")
    parts = [f"pid {agent['pid']}"] if agent.get("pid") is not None else []
    age_s = seconds_between(moment(agent, "started_at"), now)
    if age_s is not None:
        parts.append(f"started {span(max(0, age_s))} ago")
    return Row("agent", ", ".join(parts))


def _readiness(status: Mapping[str, object]) -> Iterator[Row]:
    """Ready or not; and each condition, where the agent tells them."""
    if status.get("ready") is True:
        yield Row("ready", "yes", Tone.GOOD)
    else:
        reasons = status.get("reasons")
        if isinstance(reasons, dict):
            reasons = [f"{name}: {reason}" for name, reason in reasons.items()]
        said = "; ".join(map(str, reasons)) if isinstance(reasons, list) else ""
        for part in ("certificate", "xds"):
            error = text(mapping(status, part), "last_error")
            if len(error) > _SHORT:
                said = said.replace(error, "see below")
        yield Row("ready", f"no ({said})" if said else "no", Tone.BAD)
    conditions = mapping(status, "conditions")
    waiting = [name for name, reason in sorted(conditions.items()) if reason]
    if waiting:
        held = ", ".join(name for name, reason in sorted(conditions.items()) if not reason)
        yield Row("waits for", ", ".join(waiting), Tone.BAD, below=True)
        yield Row("in order", held, below=True)


def _certificate(status: Mapping[str, object], now: datetime) -> Iterator[Row]:
    held, token = mapping(status, "certificate"), mapping(status, "token")
    error = text(held, "last_error")
    if text(held, "served_by"):
        yield Row("certificate", f"from another process at {text(held, 'served_by')}")
    elif not text(held, "serial"):
        yield Row("certificate", "NONE" if error else "-", Tone.BAD if error else Tone.PLAIN)
    else:
        yield _held_certificate(held, now)
        yield _autonomy(held, now)
        if held.get("taken_up") is True:
            yield Row("taken up", "an earlier run of the agent saved it", below=True)
    yield Row("NOT TAKEN UP", text(held, "not_taken_up"), Tone.DOUBTFUL, below=True)
    if error:
        yield Row("last attempt", f"FAILED, trying again: {error}", Tone.BAD, below=True)
    if text(token, "fault"):
        said = f"{text(token, 'path') or '-'} {text(token, 'fault')}"
        yield Row("token", said, Tone.BAD, below=True)
    yield from _served(status, held)


def _held_certificate(held: Mapping[str, object], now: datetime) -> Row:
    ends, renews = moment(held, "not_after"), moment(held, "renews_at")
    left_s = seconds_between(now, ends)
    if ends is None or left_s is None:
        return Row("certificate", short_serial(text(held, "serial")))
    if left_s < 0:
        word, tone = f"EXPIRED {span(-left_s)} ago", Tone.BAD
    else:
        word, tone = f"expires in {span(left_s)}", Tone.PLAIN
    said = f"{short_serial(text(held, 'serial'))}, {word} ({shown_time(ends)})"
    renewal_s = seconds_between(now, renews)
    if renewal_s is not None and left_s >= 0:
        said += f", renewal in {span(renewal_s)}" if renewal_s > 0 else ", renewal is due"
    return Row("certificate", said, tone)


def _autonomy(held: Mapping[str, object], now: datetime) -> Row:
    left_s = seconds_between(now, moment(held, "outage_at"))
    if left_s is None:
        return Row("autonomy", "", below=True)
    if left_s <= 0:
        return Row("autonomy", "none: there is no identity now", Tone.BAD, below=True)
    said = f"{span(left_s)} until outage if the CA stays down"
    return Row("autonomy", said, Tone.DOUBTFUL if left_s < _NEARLY_S else Tone.PLAIN, below=True)


def _served(status: Mapping[str, object], held: Mapping[str, object]) -> Iterator[Row]:
    """Which certificate Envoy serves, as far as the agent knows."""
    served = mapping(status, "envoy_certificate")
    if text(served, "serial"):
        if served.get("matches") is False:
            said = f"{short_serial(text(served, 'serial'))}, NOT the one issued last"
            yield Row("Envoy serves", said, Tone.BAD, below=True)
        else:
            yield Row("Envoy serves", "this one", below=True)
        return
    in_use = [str(each) for each in sequence(held, "in_use")]
    if in_use and in_use != [text(held, "serial")]:
        yield Row("in use", ", ".join(map(short_serial, in_use)), Tone.DOUBTFUL, below=True)
    elif in_use:
        yield Row("in use", "this one, by Envoy", below=True)


def _envoy(envoy: Mapping[str, object]) -> Iterator[Row]:
    state = text(envoy, "state") or "-"
    parts = [state]
    parts += [f"{name} {envoy[name]}" for name in ("pid", "epoch") if envoy.get(name) is not None]
    parts += [
        f"{name} {envoy[name]}" for name in ("restarts", "refused", "crashes") if envoy.get(name)
    ]
    if retiring := number(envoy, "retiring"):
        parts.append(f"older ones finishing requests {retiring}")
    good = state in {"ready", "none", "not started", "-"}
    yield Row("Envoy", ", ".join(parts), Tone.PLAIN if good else Tone.DOUBTFUL)
    if warming := number(envoy, "warming"):
        names = envoy.get("warming_clusters")
        named = f": {', '.join(map(str, names))}" if isinstance(names, list) and names else ""
        said = f"{warming} clusters without endpoints or a secret that they name{named}"
        yield Row("warming", said, Tone.DOUBTFUL, below=True)
    yield Row("bootstrap", text(envoy, "grpc_bootstrap"), below=True)
    yield Row("last crash", text(envoy, "last_crash"), Tone.DOUBTFUL, below=True)
    yield Row("last refusal", text(envoy, "last_refusal"), Tone.DOUBTFUL, below=True)


def _proxy_configs(wanted: Mapping[str, object]) -> Row:
    """The settings that ProxyConfigs have otherwise than the agent was started with."""
    parts = []
    if "concurrency" in wanted:
        has = number(wanted, "started_with_concurrency")
        parts.append(f"concurrency {number(wanted, 'concurrency')} (it was started with {has})")
    names = sequence(wanted, "variables")
    if names:
        more = number(wanted, "variables_count") - len(names)
        named = [*map(str, names), *([f"{more} more"] if more > 0 else [])]
        parts.append(f"other values of {', '.join(named)}")
    listed = " and ".join(parts)
    said = f"want {listed}: they act when the agent is started with them" if parts else ""
    return Row("ProxyConfigs", said, Tone.DOUBTFUL, below=True)


def _adaptations(status: Mapping[str, object]) -> Iterator[Row]:
    """Extensions that Envoy lacks, by what was done about them."""
    by_action: dict[str, dict[str, str]] = {}
    for each in sequence(status, "adaptations"):
        if isinstance(each, dict):
            known = by_action.setdefault(text(each, "action"), {})
            known[text(each, "extension")] = text(each, "lost")
    for action, extensions in by_action.items():
        if action in _DENYING:
            for extension, lost in extensions.items():
                yield Row(action, f"{extension}: {lost}", Tone.BAD, below=True)
        else:
            yield Row(action, ", ".join(sorted(extensions)), below=True)


def _control_plane(status: Mapping[str, object], now: datetime) -> Iterator[Row]:
    xds, learned = mapping(status, "xds"), mapping(status, "learned_roots")
    where = text(xds, "control_plane")
    since_s = seconds_between(moment(xds, "since"), now)
    lasting = "" if since_s is None else f" for {span(max(0, since_s))}"
    if "connected" not in xds:
        yield Row("control plane", where or "-")
    elif xds["connected"] is True:
        yield Row("control plane", f"{where + ', ' if where else ''}connected{lasting}")
    elif is_unasked(status):
        said = "no program has asked for configuration yet"
        yield Row("control plane", f"{where + ', ' if where else ''}{said}")
    else:
        reason = f": {text(xds, 'last_error')}" if text(xds, "last_error") else ""
        said = f"{where + ', ' if where else ''}NOT CONNECTED{lasting}{reason}"
        yield Row("control plane", said, Tone.BAD)
    yield from _other_control_planes(xds, where, now)
    if (stale_since := moment(xds, "stale_since")) is not None:
        said = "Envoy has saved configuration, as no control plane answers"
        row = f"{shown_time(stale_since)}: {said}"
        yield Row("STALE SINCE", row, Tone.DOUBTFUL, below=True)
    yield from _quarantined(xds)
    problem = text(mapping(xds, "saved"), "problem")
    yield Row("NOT SAVED", problem, Tone.DOUBTFUL, below=True)
    yield Row("also trusted", text(learned, "roots"), below=True)
    yield Row("PROBLEM", text(learned, "problem"), Tone.BAD, below=True)


def _quarantined(xds: Mapping[str, object]) -> Iterator[Row]:
    """Yield the refused resources that an Envoy without an older version does not get."""
    for each in objects(xds, "quarantined"):
        kind = text(each, "type") or spoken(text(each, "type_url"))
        since = moment(each, "since")
        began = "" if since is None else f", since {shown_time(since)}"
        said = f"{kind} {text(each, 'name')}{began}: {text(each, 'reason')}"
        yield Row("QUARANTINED", " ".join(said.split()), Tone.DOUBTFUL, below=True)


def _other_control_planes(xds: Mapping[str, object], used: str, now: datetime) -> Iterator[Row]:
    """Yield the control planes besides the one in use, where there are several."""
    for plane in objects(xds, "control_planes"):
        address = text(plane, "address")
        if address == used:
            continue
        since_s = seconds_between(moment(plane, "since"), now)
        lasting = "" if since_s is None else f" for {span(max(0, since_s))}"
        match plane.get("healthy"):
            case True:
                yield Row("another", f"{address}, works", below=True)
            case False:
                said = f"{address}, FAILS{lasting}: {text(plane, 'last_error')}"
                yield Row("another", said, Tone.DOUBTFUL, below=True)
            case _:
                yield Row("another", f"{address}, not tried", below=True)


def _dns(names: Mapping[str, object]) -> Iterator[Row]:
    if not names:
        return
    asked = number(names, "queries")
    if names.get("table") is False:
        table = "NO TABLE YET"
    else:
        hosts = number(names, "hosts")
        table = f"{hosts} host{'s' if hosts != 1 else ''}" if "hosts" in names else "a table"
    said = f"{table}, {asked} queries" if "queries" in names else table
    if asked:
        rates = (
            ("from the table", "table_hits"),
            ("from the cache", "cache_hits"),
            ("forwarded", "forwarded"),
        )
        shares = [f"{number(names, key) * 100 // asked} % {label}" for label, key in rates]
        said += f": {', '.join(shares)}"
    tone = Tone.DOUBTFUL if names.get("table") is False else Tone.PLAIN
    yield Row("DNS", said, tone)
    yield Row("answers at", ", ".join(map(str, sequence(names, "addresses"))), below=True)
    upstreams = ", ".join(map(str, sequence(names, "upstreams")))
    failures = number(names, "upstream_failures")
    failed = f", {failures} without an answer" if failures else ""
    if upstreams:
        yield Row("asks", f"{upstreams}{failed}", below=True)
    else:
        yield Row("asks", "NO RESOLVER: other names are not resolved", Tone.BAD, below=True)
    if returned := number(names, "own_queries"):
        said = f"{returned} questions came back from a resolver"
        yield Row("LOOP", said, Tone.BAD, below=True)


def _health_check(check: Mapping[str, object], now: datetime) -> Iterator[Row]:
    """The application's health, as the control plane last heard it."""
    if not check:
        return
    since_s = seconds_between(moment(check, "since"), now)
    lasting = "" if since_s is None else f" for {span(max(0, since_s))}"
    reason = f": {text(check, 'reason')}" if text(check, "reason") else ""
    place = " on ".join(filter(None, (text(check, "probe"), text(check, "host"))))
    by = f" (by {place})" if place else ""
    match check.get("healthy"):
        case True:
            yield Row("health check", f"healthy{lasting}{by}", Tone.GOOD)
        case False:
            yield Row("health check", f"UNHEALTHY{lasting}{reason}{by}", Tone.BAD)
        case _:
            yield Row("health check", f"no verdict yet{by}", Tone.DOUBTFUL)


def _details(label: str, part: Mapping[str, object]) -> Row:
    """One line of a part whose entries depend on the agent's version."""
    shown = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in part.items()
        if value not in (None, "") and not isinstance(value, dict | list)
    ]
    return Row(label, ", ".join(shown))
