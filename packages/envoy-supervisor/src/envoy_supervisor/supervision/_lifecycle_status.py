"""The status that callers see and wait for: whether Envoy serves, and what has happened so far."""

from __future__ import annotations

import asyncio
import logging

from envoy_supervisor._exit import Exit

log = logging.getLogger(__name__)


class LifecycleStatus:
    """Events to wait for, counts, and the last reasons.

    ready: a process serves. down: a process has ended, none serves, and none was started since.
    exited: gets its result when Envoy has ended for good.
    """

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.down = asyncio.Event()
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.restarts = 0
        self.refused = 0
        self.crashes = 0
        self.last_crash: str | None = None
        self.last_refusal: str | None = None

    def on_start(self) -> None:
        """A process was started."""
        self.down.clear()

    def on_ready(self, *, restarted: bool) -> None:
        """A process serves. restarted: it took over from a process that was alive."""
        self.ready.set()
        self.down.clear()
        self.restarts += restarted

    def on_exit(self, *, served: bool) -> None:
        """A process has ended. served: it was the one that served, and no stop is under way."""
        if served:
            self.ready.clear()
        if not self.ready.is_set():
            self.down.set()

    def on_crash(self, reason: str) -> None:
        """Count an end that was not asked for."""
        self.crashes += 1
        self.last_crash = reason

    def on_refusal(self, reason: str) -> None:
        """Count and logs a version that does not work."""
        self.refused += 1
        self.last_refusal = reason
        log.error("the new envoy was refused, the old one serves on", extra={"reason": reason})

    def on_end(self, how: Exit) -> None:
        """Envoy has ended for good."""
        self.exited.set_result(how)
        self.down.set()
