"""What those outside can see and wait for: whether Envoy serves, and what has happened so far."""

from __future__ import annotations

import asyncio
import logging

from envoy_supervisor._exit import Exit

log = logging.getLogger(__name__)


class Record:
    """`exited` is done when Envoy has ended for good."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.down = asyncio.Event()  # an end left nobody ready, and nobody started since
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.restarts = 0
        self.refused = 0
        self.crashes = 0
        self.last_crash: str | None = None
        self.last_refusal: str | None = None

    def started(self) -> None:
        """There is a process again."""
        self.down.clear()

    def serves(self, *, restarted: bool) -> None:
        """A process serves; restarted: it took over from one that lives."""
        self.ready.set()
        self.down.clear()
        self.restarts += restarted

    def process_ended(self, *, served: bool) -> None:
        """A process has ended; served: there is none now that serves, and there shall be."""
        if served:
            self.ready.clear()
        if not self.ready.is_set():
            self.down.set()

    def crash(self, reason: str) -> None:
        """Count an end that nobody asked for."""
        self.crashes += 1
        self.last_crash = reason

    def refuse(self, reason: str) -> None:
        """Count and log a version that does not work."""
        self.refused += 1
        self.last_refusal = reason
        log.error("the new envoy was refused, the old one serves on", extra={"reason": reason})

    def ended(self, how: Exit) -> None:
        """It is over."""
        self.exited.set_result(how)
        self.down.set()
