"""Configures the logging of this process; only commands do that."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from mesh_lifecycle.logs._formats import JsonFormatter, TextFormatter
from mesh_lifecycle.logs._handler import LogHandler
from mesh_lifecycle.logs._levels import ALL, LogScopes, ScopeLevel, parse_levels
from mesh_lifecycle.logs._sinks import FileSink, LogTargetError, Rotation, StreamSink

STDOUT, STDERR = "stdout", "stderr"
# By these paths a socket, as systemd's journal gives it to a service, cannot be opened.
_STREAMS = {STDOUT: STDOUT, STDERR: STDERR, "/dev/stdout": STDOUT, "/dev/stderr": STDERR}


class LogSettings(NamedTuple):
    """How a process logs.

    levels: a level, or items of `scope:level` with `default:level` for the rest.
    targets: `stdout`, `stderr` and paths of files; every line goes to all of them.
    rotated: one more file, which is moved aside by `rotation`.
    callers: scopes whose lines say where in the code they come from; `all` is every one.
    stacks: items of `scope:level`: from which level on a line has a stack of calls.
    """

    levels: str = "info"
    as_json: bool = False
    targets: tuple[str, ...] = (STDERR,)
    rotated: Path | None = None
    rotation: Rotation = Rotation()
    callers: tuple[str, ...] = ()
    stacks: str = "none"


def configure_logging(
    levels: str = "info", *, as_json: bool = False, stream: TextIO | None = None
) -> None:
    """Send this process's log records to `stream` (default stderr), replacing earlier handlers.

    A stream that takes nothing holds nothing up: up to a MiB waits for it, and what is above that
    is lost; so is a record that the stream refuses, as when a disk is full. How many were lost is
    logged later.

    levels: a level (`info`), or a comma list of `logger:level` with `default:level` or a bare
        level for the rest. Levels: debug, info, warn, error, fatal, none.

    Raises `LogLevelError` naming the part that is wrong.
    """
    parsed = parse_levels(levels)
    handler = LogHandler(StreamSink(sys.stderr if stream is None else stream))
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    _use([handler], LogScopes(), parsed)


def start_logging(settings: LogSettings, scopes: LogScopes) -> None:
    """Log as the settings say, replacing earlier handlers.

    Levels for what is no scope are set all the same, and logged as a warning.
    Raises `LogLevelError`, and `LogTargetError` for a file that cannot be written.
    """
    levels, stacks = parse_levels(settings.levels), parse_levels(settings.stacks)
    callers = [name for scope in settings.callers for name in scopes.loggers(scope)]
    stack_levels = {name: level for scope, level in stacks for name in scopes.loggers(scope)}
    form = JsonFormatter if settings.as_json else TextFormatter
    formatter = form(callers=tuple(callers), stacks=stack_levels)
    handlers = [LogHandler(sink) for sink in _sinks(settings)]
    for handler in handlers:
        handler.setFormatter(formatter)
    named = [*(level.scope for level in (*levels, *stacks)), *settings.callers]
    # Before the levels are set: a logger that has been named exists from then on.
    obstacles = {scope: scopes.obstacle(scope) for scope in named}
    _use(handlers, scopes, levels)
    for scope, obstacle in obstacles.items():
        if obstacle:
            logging.getLogger("mesh_lifecycle").warning(
                "a log scope that was named has no effect",
                extra={"named": scope, "reason": obstacle, "scopes": [*scopes.names]},
            )


def _use(
    handlers: Sequence[logging.Handler], scopes: LogScopes, levels: Sequence[ScopeLevel]
) -> None:
    root = logging.getLogger()
    root.handlers[:] = handlers
    scopes.set_levels([ScopeLevel(ALL, logging.INFO), *levels])


def _sinks(settings: LogSettings) -> list[StreamSink | FileSink]:
    sinks: list[StreamSink | FileSink] = []
    try:
        for target in dict.fromkeys(_STREAMS.get(each, each) for each in settings.targets):
            if target in (STDOUT, STDERR):
                sinks.append(StreamSink(sys.stdout if target == STDOUT else sys.stderr))
            else:
                sinks.append(FileSink(Path(target)))
        if settings.rotated is not None:
            sinks.append(FileSink(settings.rotated, settings.rotation))
    except LogTargetError:
        for sink in sinks:
            sink.close()
        raise
    return sinks
