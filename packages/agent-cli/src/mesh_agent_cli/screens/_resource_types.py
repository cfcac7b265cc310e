"""The table of resource types: what Envoy was sent, when, and whether it took it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from mesh_agent_cli.screens._fields import moment, seconds_between, sequence, text
from mesh_agent_cli.screens._terminal import Cell, Screen, Tone, table, toned, wrapped
from mesh_command_line import span

_TYPE_PREFIX = "type.googleapis.com/"
_VERSION = 1
_INDENT = "  "
_MOST_TYPES = 100
_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def resource_types(types: Mapping[str, object], now: datetime, out: Screen) -> Iterator[str]:
    """Yield the lines of the table; none if there are no types."""
    known = {name: each for name, each in sorted(types.items()) if isinstance(each, dict)}
    if not known:
        return
    shown = dict(list(known.items())[:_MOST_TYPES])
    names = _short_names(shown)
    head = (Cell("TYPE"), Cell("VERSION"), Cell("STATE"), Cell("SINCE"))
    lines = [head, *(_line(names[name], each, now) for name, each in shown.items())]
    heading, *body = table(lines, out, shrink=_VERSION)
    yield heading
    for line, each in zip(body, shown.values(), strict=True):
        yield line
        yield from _remarks(each, now, out)
    if len(known) > len(shown):
        yield f"and {len(known) - len(shown)} more"


def _short_names(types: Mapping[str, Mapping[str, object]]) -> Mapping[str, str]:
    """Return what people call each type, or its whole name where two types would share that."""
    names = {name: text(each, "name") or spoken(name) for name, each in types.items()}
    shared = Counter(names.values())
    return {
        name: said if shared[said] == 1 else name.removeprefix(_TYPE_PREFIX)
        for name, said in names.items()
    }


def spoken(type_url: str) -> str:
    """Return the words of a type's last name, for one that the agent has no name for."""
    return _INNER_CAPITAL.sub(r" \1", type_url.rpartition(".")[2]).lower()


def _line(name: str, entry: Mapping[str, object], now: datetime) -> tuple[Cell, ...]:
    state, tone = _state(entry)
    age_s = seconds_between(moment(entry, "at"), now)
    since = "" if age_s is None else f"{span(max(0, age_s))} ago"
    return Cell(name), Cell(text(entry, "version") or "-"), Cell(state, tone), Cell(since)


def _state(entry: Mapping[str, object]) -> tuple[str, Tone]:
    if text(entry, "nack"):
        return "NACK", Tone.BAD
    return ("ACK", Tone.GOOD) if entry.get("acked") else ("sent, no answer yet", Tone.DOUBTFUL)


def _refused(entry: Mapping[str, object], now: datetime) -> Iterator[str]:
    """Yield each refused resource that Envoy's words tell, and since when it is."""
    for each in sequence(entry, "refused"):
        if isinstance(each, dict) and (name := text(each, "name")):
            age_s = seconds_between(moment(each, "since"), now)
            since = "" if age_s is None else f", since {span(max(0, age_s))}"
            yield f"refused resource: {name}{since}"


def _remarks(entry: Mapping[str, object], now: datetime, out: Screen) -> Iterator[str]:
    """Why a version was refused and what is in use meanwhile; why the last push came."""
    remarks: list[tuple[str, Tone]] = []
    if text(entry, "nack"):
        remarks.append((f"refused: {text(entry, 'nack')}", Tone.BAD))
        remarks.extend((said, Tone.BAD) for said in _refused(entry, now))
        if "in_use" in entry:
            kept = text(entry, "in_use")
            remarks.append((f"in use: {f'version {kept}' if kept else 'none'}", Tone.PLAIN))
    if reasons := sequence(entry, "push_reasons"):
        remarks.append((f"pushed for {', '.join(map(str, reasons))}", Tone.QUIET))
    for said, tone in remarks:
        for number, line in enumerate(wrapped(said, out.width - 2 * len(_INDENT))):
            yield toned(f"{_INDENT}{'' if number == 0 else _INDENT}{line}", tone, out)
