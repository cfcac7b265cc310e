"""Configures logging, as text or as JSON; only commands call it."""

import json
import logging
import sys
import time
from typing import TextIO

from mesh_lifecycle._log_handler import LogHandler

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "none": logging.CRITICAL + 10,
}
_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}


class LogLevelError(ValueError):
    """A text that is no valid specification of log levels."""


def configure_logging(
    levels: str = "info", *, as_json: bool = False, stream: TextIO | None = None
) -> None:
    """Send this process's log records to `stream` (default stderr), replacing earlier handlers.

    A record that the stream refuses, as when a disk is full, is lost; their number is logged later.

    levels: a level (`info`), or a comma list of `logger:level` with `default:level` or a bare
        level for the rest. Levels: debug, info, warn, error, fatal, none.

    Raises `LogLevelError` naming the part that is wrong.
    """
    parsed = parse_levels(levels)
    handler = LogHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(parsed.pop("", logging.INFO))
    for name, level in parsed.items():
        logging.getLogger(name).setLevel(level)


def parse_levels(levels: str) -> dict[str, int]:
    """Map logger names to levels; the name "" is the default."""
    parsed: dict[str, int] = {}
    for part in filter(None, (item.strip() for item in levels.split(","))):
        name, colon, level = part.rpartition(":")
        if level.lower() not in _LEVELS:
            raise LogLevelError(
                f"log level {part!r}: {level!r} is not one of debug, info, warn, error, fatal, none"
            )
        parsed["" if not colon or name in ("default", "all") else name] = _LEVELS[level.lower()]
    return parsed


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _timestamp(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


class TextFormatter(logging.Formatter):
    """`time  level  logger  message  key=value ...`, tab-separated."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(
            f"{key}={json.dumps(value, default=str)}" for key, value in _facts(record).items()
        )
        parts = [_timestamp(record), record.levelname.lower(), record.name, record.getMessage()]
        line = "\t".join([*parts, facts] if facts else parts)
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, scope, msg, then the facts."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "scope": record.name,
            "msg": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)
