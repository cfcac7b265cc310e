"""Log levels by scope: read from a text, set, changed while the process runs, and shown."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

DEFAULT = "default"
ALL = "all"

_NONE = logging.CRITICAL + 10
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "none": _NONE,
    # Envoy's words for the same.
    "trace": logging.DEBUG,
    "warning": logging.WARNING,
    "critical": logging.CRITICAL,
    "off": _NONE,
}
_NAMES = ("debug", "info", "warn", "error", "fatal", "none")


class LogLevelError(ValueError):
    """A text that is no valid specification of log levels."""


class ScopeLevel(NamedTuple):
    """The level of one scope; the scopes `default` and `all` are no names of loggers."""

    scope: str
    level: int


def parse_levels(levels: str) -> list[ScopeLevel]:
    """Read `LEVEL` and `SCOPE:LEVEL` items, separated by commas. Raises `LogLevelError`."""
    parsed = []
    for part in filter(None, (item.strip() for item in levels.split(","))):
        scope, _, level = part.rpartition(":")
        if level.lower() not in _LEVELS:
            raise LogLevelError(f"log level {part!r}: {level!r} is not one of {', '.join(_NAMES)}")
        parsed.append(ScopeLevel(scope or DEFAULT, _LEVELS[level.lower()]))
    return parsed


def level_name(level: int) -> str:
    """Return the word for a level, or for the nearest one above it."""
    return next((name for name in _NAMES if level <= _LEVELS[name]), "none")


class LogScopes:
    """Names for groups of loggers. The name of a logger is a scope too: that logger and all below.

    scopes: loggers by scope. A scope without loggers is one that others have and this program
        does not.
    fixed: loggers whose level is their program's business, which `all` leaves as it is.
    """

    def __init__(
        self, scopes: Mapping[str, Sequence[str]] | None = None, *, fixed: Iterable[str] = ()
    ) -> None:
        self._scopes = scopes or {}
        self._fixed = frozenset(fixed)
        named = {logger for loggers in self._scopes.values() for logger in loggers}
        self._packages = {logger.partition(".")[0] for logger in named}

    @property
    def names(self) -> tuple[str, ...]:
        """The scopes that have loggers, sorted."""
        return tuple(sorted(name for name, loggers in self._scopes.items() if loggers))

    def loggers(self, scope: str) -> tuple[str, ...]:
        """Return the names of a scope's loggers; for a name that is no scope, that name."""
        if scope in (DEFAULT, ALL):
            return ("",)
        return tuple(self._scopes.get(scope, (scope,)))

    def obstacle(self, scope: str) -> str | None:
        """Return why a level for this scope has no effect; None if it has one."""
        if scope in (DEFAULT, ALL):
            return None
        if scope in self._scopes:
            return None if self._scopes[scope] else "nothing is logged in this scope here"
        if scope.partition(".")[0] in self._packages or _exists(scope):
            return None
        return "there is no such scope and no such logger"

    def set_levels(self, levels: Iterable[ScopeLevel]) -> None:
        """Set levels, one after the other; `all` takes back those that were set before it."""
        for scope, level in levels:
            if scope == ALL:
                for name in self._set_by_name():
                    logging.getLogger(name).setLevel(logging.NOTSET)
            for name in self.loggers(scope):
                logging.getLogger(name).setLevel(level)

    def levels(self) -> dict[str, str]:
        """Return the level of each scope, and of each logger that has one of its own."""
        shown = {DEFAULT: level_name(logging.getLogger().level)}
        for scope in self.names:
            levels = [logging.getLogger(name).getEffectiveLevel() for name in self._scopes[scope]]
            shown[scope] = level_name(min(levels))
        own = {name: level_name(logging.getLogger(name).level) for name in self._set_by_name()}
        return shown | own

    def _set_by_name(self) -> list[str]:
        return sorted(
            name
            for name, logger in _loggers()
            if logger.level != logging.NOTSET and name not in self._fixed
        )


def _loggers() -> Iterator[tuple[str, logging.Logger]]:
    for name, logger in tuple(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name, logger


def _exists(name: str) -> bool:
    return any(each == name or each.startswith(f"{name}.") for each, _ in _loggers())
