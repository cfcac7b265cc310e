"""The forms of a log line: tab-separated text, or one JSON object."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from functools import lru_cache

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_KEYS = ("time", "level", "scope", "msg")
# What a peer sent must not look like a line of its own, nor command a terminal.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPES |= {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}

# With arguments, `json.dumps` makes an encoder at every call, which takes longer than to encode.
_encoded = json.JSONEncoder(default=str).encode
_encoded_strictly = json.JSONEncoder(default=str, allow_nan=False).encode


class _Formatter(logging.Formatter):
    """callers: loggers, and all below them, whose lines say where in the code they come from.

    stacks: by logger, the level from which on a line has the stack of calls that led to it.
    """

    def __init__(
        self, *, callers: tuple[str, ...] = (), stacks: Mapping[str, int] | None = None
    ) -> None:
        super().__init__()
        self._callers = callers
        self._stacks = stacks or {}

    def _facts(self, record: logging.LogRecord) -> dict[str, object]:
        facts = {key: value for key, value in record.__dict__.items() if key not in _STANDARD}
        if self._callers and any(_is_below(record.name, name) for name in self._callers):
            file = "/".join(record.pathname.split("/")[-2:])
            facts.setdefault("caller", f"{file}:{record.lineno}")
        return facts

    def _trace(self, record: logging.LogRecord) -> str:
        """Return the traceback of the record's error and the stack that is asked for."""
        parts = []
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        if self._stacks and record.levelno >= self._stack_level(record.name):
            parts.append(_stack())
        return "\n".join(parts)

    def _stack_level(self, name: str) -> float:
        levels = [(len(each), self._stacks[each]) for each in self._stacks if _is_below(name, each)]
        return max(levels)[1] if levels else float("inf")


class TextFormatter(_Formatter):
    """`time  level  scope  message  key=value ...`, tab-separated."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join([f"{key}={_encoded(value)}" for key, value in self._facts(record).items()])
        message = record.getMessage()
        if not message.isprintable():
            message = message.translate(_ESCAPES)
        parts = [_timestamp(record), record.levelname.lower(), record.name, message]
        line = "\t".join([*parts, facts] if facts else parts)
        trace = self._trace(record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(_Formatter):
    """One JSON object a line: time, level, scope, msg, then the facts."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "scope": record.name,
            "msg": record.getMessage(),
        }
        for key, value in self._facts(record).items():
            entry[f"{key}_" if key in _KEYS else key] = value
        if trace := self._trace(record):
            entry["error" if record.exc_info else "stack"] = trace
        try:
            return _encoded_strictly(entry)
        except (TypeError, ValueError):  # a number that JSON has not, or a key that is no text
            return json.dumps({str(key): str(value) for key, value in entry.items()})


def _timestamp(record: logging.LogRecord) -> str:
    return f"{_whole_second(int(record.created // 1))}.{int(record.msecs):03d}Z"


@lru_cache(maxsize=1)  # under load, many lines are of one second
def _whole_second(unix: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix))


def _is_below(name: str, above: str) -> bool:
    return not above or name == above or name.startswith((f"{above}.", f"{above} "))


def _stack() -> str:
    """Return the calls that led to the record, without those of logging itself."""
    import traceback

    frame = sys._getframe()
    own = (logging.__file__, __file__, __file__.replace("_formats", "_handler"))
    while frame.f_back is not None and frame.f_code.co_filename in own:
        frame = frame.f_back
    return "".join(traceback.format_stack(frame)).rstrip("\n")
