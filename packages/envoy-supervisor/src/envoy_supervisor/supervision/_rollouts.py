"""The versions that are wanted, were good or still run; and the callers that wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from envoy_supervisor._errors import RestartRefused
from envoy_supervisor.processes._version import Version


class Rollouts:
    """Versions by name. A rollout has one outcome: its version serves, or was refused."""

    def __init__(self, first: Version) -> None:
        self._versions = {first.name: first}
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def __getitem__(self, name: str) -> Version:
        return self._versions[name]

    def begin(self, version: Version) -> asyncio.Future[None]:
        """Return a future: done when this version serves, or with `RestartRefused`.

        Call `forget` afterwards.
        """
        self._versions[version.name] = version
        outcome = self._waiting[version.name] = asyncio.get_running_loop().create_future()
        return outcome

    def forget(self, name: str, *, needed: Collection[str]) -> None:
        """Forget a rollout that no caller waits for. needed: versions that may yet be started."""
        del self._waiting[name]
        self._versions = {n: v for n, v in self._versions.items() if n in needed}

    def succeed(self, name: str) -> None:
        """End the wait for this version, which serves now."""
        outcome = self._waiting.get(name)
        if outcome is not None and not outcome.done():
            outcome.set_result(None)

    def refuse(self, name: str, reason: str) -> None:
        """End the wait for this version, which was tried and does not work."""
        outcome = self._waiting.get(name)
        if outcome is not None and not outcome.done():
            outcome.set_exception(RestartRefused(reason))

    def refuse_all(self, reason: str) -> None:
        """End every wait: no version will ever serve again."""
        for name in self._waiting:
            self.refuse(name, reason)
