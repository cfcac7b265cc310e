"""Logs the lines that Envoy prints: with Envoy's levels, bounded in size and in rate.

Envoy's threads wait while a full pipe is not read, so the pipe is always read; lines that are too
many for the log are counted and left out. Each line becomes a record like the program's own, with
the time at which Envoy wrote it, so that both have one form in the log.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

log = logging.getLogger("envoy_supervisor.envoy")

MAX_LINE_BYTES = 16 * 1024
RECENT_LINES = 40

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_RECORD = re.compile(
    r"(?:\[(?P<time>\d{1,12}\.\d{6})\]\[(?P<thread>\d{1,12})\])?"
    r"\[(?P<level>trace|debug|info|warning|error|critical)\]\[(?P<component>[^\]\s]{1,200})\]"
    r"(?:\[(?P<caller>[^\]]{0,300})\])? (?P<text>.*)",
    re.DOTALL,
)


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line that Envoy printed. `component` is empty for a line that is no log record.

    created: when Envoy wrote it, in seconds since 1970; None if the line does not say.
    facts: what the line says besides.
    """

    level: int
    component: str
    text: str
    created: float | None = None
    facts: Mapping[str, object] = msgspec.field(default_factory=dict)


def parse_line(line: bytes) -> LogLine:
    """Read one line of Envoy's output; never fails."""
    text = line[:MAX_LINE_BYTES].decode("utf-8", "replace").rstrip()
    if len(line) > MAX_LINE_BYTES:
        text += f" ... ({len(line)} bytes)"
    elif text.startswith("{") and (parsed := _json_record(text)) is not None:
        return parsed
    if (match := _RECORD.fullmatch(text)) is None:
        return LogLine(level=logging.INFO, component="", text=text)
    facts: dict[str, object] = {}
    if match["caller"] is not None:
        facts["caller"] = match["caller"]
    if match["thread"] is not None:
        facts["thread_id"] = int(match["thread"])
    return LogLine(
        level=_LEVELS[match["level"]],
        component=match["component"],
        text=match["text"],
        created=float(match["time"]) if match["time"] else None,
        facts=facts,
    )


def _json_record(text: str) -> LogLine | None:
    """Read a record in the form of Istio's bootstraps, which a user's own bootstrap may have."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match entry:
        case {"level": str(level), "msg": str(message)} if level in _LEVELS:
            scope = str(entry.get("scope", ""))
            names = {"caller": "caller", "thread": "thread_id"}
            facts = {name: entry[key] for key, name in names.items() if key in entry}
            return LogLine(
                level=_LEVELS[level],
                component=scope.removeprefix("envoy").strip() or "main",
                text=message,
                facts=facts,
            )
    return None


class OutputLog:
    """Takes Envoy's output in pieces and logs it line by line.

    At most `lines_per_s` lines a second are logged (and that many more in one burst). `recent` has
    the last lines, for the sentence that explains an exit.
    """

    def __init__(
        self, *, pid: Callable[[], int], monotonic: Callable[[], float], lines_per_s: float = 500.0
    ) -> None:
        self.recent: deque[LogLine] = deque(maxlen=RECENT_LINES)
        self._pid = pid
        self._monotonic = monotonic
        self._rate = lines_per_s
        self._allowance = lines_per_s
        self._last = monotonic()
        self._dropped = 0
        self._partial = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece of output, of any size, cut anywhere."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line(bytes(self._partial) + line if self._partial else line)
            self._partial.clear()
        # Of a line without end one byte more than the limit is kept: that marks it as too long.
        self._partial += rest[: max(0, MAX_LINE_BYTES + 1 - len(self._partial))]

    def close(self) -> None:
        """Logs the output after the last newline, and how many lines were left out."""
        if self._partial:
            self._line(bytes(self._partial))
            self._partial.clear()
        self._report_dropped()

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        parsed = parse_line(line)
        self.recent.append(parsed)
        if not self._allowed():
            self._dropped += 1
            return
        self._report_dropped()
        if log.isEnabledFor(parsed.level):
            log.handle(_record(parsed, self._pid()))

    def _allowed(self) -> bool:
        now = self._monotonic()
        self._allowance = min(self._rate, self._allowance + (now - self._last) * self._rate)
        self._last = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _report_dropped(self) -> None:
        if self._dropped:
            log.warning(
                "envoy printed more than is logged", extra={"lines_left_out": self._dropped}
            )
            self._dropped = 0


def _record(line: LogLine, pid: int) -> logging.LogRecord:
    scope = f"envoy {line.component}" if line.component else "envoy"
    facts = {**line.facts, "pid": pid}
    record = log.makeRecord(scope, line.level, "", 0, "%s", (line.text,), None, extra=facts)
    if line.created is not None:
        record.created = line.created
        record.msecs = line.created % 1 * 1000
    return record
