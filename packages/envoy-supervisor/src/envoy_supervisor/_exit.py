"""How an Envoy ended: its code or signal, a kind to decide by, and a sentence to read."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ExitCause(StrEnum):
    """The kind of an end."""

    STOPPED = "stopped"
    """Envoy was asked to exit, by this supervisor or by another program."""
    BAD_CONFIGURATION = "bad configuration"
    PORT_IN_USE = "port in use"
    MISSING_LIBRARY = "missing library"
    OUT_OF_MEMORY = "out of memory"
    KILLED = "killed"
    CRASHED = "crashed"
    FAILED = "failed"


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended: by itself with `code`, or by `signal`; the other is None."""

    code: int | None
    signal: int | None
    cause: ExitCause
    reason: str

    @property
    def final(self) -> bool:
        """Whether starting the same again cannot help."""
        return self.cause in _FINAL


_FINAL = (ExitCause.BAD_CONFIGURATION, ExitCause.MISSING_LIBRARY, ExitCause.STOPPED)
