"""Whether a service is ready, and if not, which conditions are missing.

A service is ready when every registered condition is set and no stop was requested. A condition
that is not set has a reason in words. Details are reported with readiness and do not decide it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from mesh_lifecycle._signals import Stopping


class Condition:
    """One condition for the service to be ready."""

    def __init__(self, name: str, readiness: "Readiness") -> None:
        self.name = name
        self._readiness = readiness
        self._reason: str | None = "not yet"

    @property
    def reason(self) -> str | None:
        """Why the condition is not set; None if it is."""
        return self._reason

    def set(self) -> None:
        self._reason = None
        self._readiness._on_change()

    def unset(self, reason: str) -> None:
        self._reason = reason
        self._readiness._on_change()


class Readiness:
    """The conditions of one service, which is ready if none is registered.

    stopping: once a stop is requested, the service is no longer ready, with that as its reason.
    """

    def __init__(self, stopping: Stopping | None = None) -> None:
        self._stopping = stopping
        self._conditions: dict[str, Condition] = {}
        self._details: dict[str, Callable[[], str | None]] = {}
        self._all_set = asyncio.Event()
        self._all_set.set()
        self._first_ready_at: float | None = None

    def register(self, name: str) -> Condition:
        """Add a condition, unset; raises ValueError when the name is taken."""
        self._check_free(name)
        condition = self._conditions[name] = Condition(name, self)
        self._on_change()
        return condition

    def add_detail(self, name: str, current: Callable[[], str | None]) -> None:
        """Add trouble that is reported and does not make the service unready.

        current: called when somebody asks; returns the trouble of that moment, or None. Raises
        ValueError when the name is taken.
        """
        self._check_free(name)
        self._details[name] = current

    def _check_free(self, name: str) -> None:
        if name in self._conditions or name in self._details:
            raise ValueError(f"readiness condition {name!r} is registered already")

    @property
    def ready(self) -> bool:
        return self._all_set.is_set() and not self._is_stopping

    @property
    def first_ready_at(self) -> float | None:
        """When all registered conditions were set for the first time, on `time.monotonic`."""
        return self._first_ready_at

    def reasons(self) -> tuple[str, ...]:
        """`name: reason` for each condition that is not set, in order of registration."""
        if self._stopping is not None and self._stopping.requested:
            return (f"stopping: {self._stopping.reason}",)
        return tuple(
            f"{condition.name}: {condition.reason}"
            for condition in self._conditions.values()
            if condition.reason is not None
        )

    def conditions(self) -> Mapping[str, str]:
        """The reason of each condition by its name; empty if it is set."""
        return {name: each.reason or "" for name, each in self._conditions.items()}

    def details(self) -> Mapping[str, str]:
        """The trouble of each detail by its name; empty if there is none now."""
        return {name: current() or "" for name, current in self._details.items()}

    async def wait_ready(self) -> None:
        """Wait until every condition is set, whether or not the service is stopping."""
        await self._all_set.wait()

    @property
    def _is_stopping(self) -> bool:
        return self._stopping is not None and self._stopping.requested

    def _on_change(self) -> None:
        if any(condition.reason is not None for condition in self._conditions.values()):
            self._all_set.clear()
        else:
            self._all_set.set()
            if self._first_ready_at is None:
                self._first_ready_at = time.monotonic()
