"""Begins logging as the command line says."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from mesh_agent.config._flags import Flags
from mesh_agent.logs._scopes import ENVOY, SCOPES
from mesh_lifecycle import (
    LogLevelError,
    LogSettings,
    LogTargetError,
    Rotation,
    parse_levels,
    start_logging,
)

log = logging.getLogger("mesh_agent")


def start_agent_logging(flags: Flags) -> list[str]:
    """Log as the flags say from now on; returns what is wrong with them, a sentence each."""
    problems = [
        f"--{name}: {error}"
        for name, levels in (
            ("log_output_level", flags.log_levels),
            ("log_stacktrace_level", flags.log_stacktrace_level),
        )
        if (error := _level_error(levels))
    ]
    if problems:
        return problems
    try:
        start_logging(_settings(flags), SCOPES)
    except LogTargetError as error:
        return [f"a log file named by --log_target or --log_rotate: {error}"]
    logging.getLogger(ENVOY).setLevel(logging.DEBUG)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    return []


def report(problems: Sequence[str], *, as_json: bool) -> None:
    """Tell why the agent does not run: to people on stderr, to programs in the log."""
    for problem in problems:
        if as_json and logging.getLogger().handlers:
            log.error("the agent cannot run", extra={"problem": problem})
        else:
            sys.stderr.write(f"mesh-agent: {problem}\n")


def _level_error(levels: str) -> str | None:
    try:
        parse_levels(levels)
    except LogLevelError as error:
        return str(error)
    return None


def _settings(flags: Flags) -> LogSettings:
    return LogSettings(
        levels=flags.log_levels,
        as_json=flags.log_as_json,
        targets=_targets(flags.log_target),
        rotated=Path(flags.log_rotate) if flags.log_rotate else None,
        rotation=Rotation(
            max_bytes=flags.log_rotate_max_size,
            max_age_days=flags.log_rotate_max_age,
            max_backups=flags.log_rotate_max_backups,
        ),
        callers=tuple(_items(flags.log_caller)),
        stacks=flags.log_stacktrace_level,
    )


def _targets(given: Sequence[str]) -> tuple[str, ...]:
    """Return the targets of a flag that may be repeated, hold a list, or be Istio's `[stdout]`."""
    return tuple(_items(",".join(each.removeprefix("[").removesuffix("]") for each in given))) or (
        "stdout",
    )


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.critical("the agent ends for an error of its own", exc_info=(kind, error, trace))
