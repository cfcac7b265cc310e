"""The versions that are wanted, were good or still run; and who waits until one of them serves."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from envoy_supervisor._errors import RestartRefused
from envoy_supervisor.processes._version import Version


class Rollouts:
    """Versions by name. A rollout is decided once: its version serves, or was refused."""

    def __init__(self, first: Version) -> None:
        self._versions = {first.name: first}
        self._undecided: dict[str, asyncio.Future[None]] = {}

    def __getitem__(self, name: str) -> Version:
        return self._versions[name]

    def begin(self, version: Version) -> asyncio.Future[None]:
        """Done when this version serves, or with `RestartRefused`; `forget` it afterwards."""
        self._versions[version.name] = version
        outcome = self._undecided[version.name] = asyncio.get_running_loop().create_future()
        return outcome

    def forget(self, name: str, *, needed: Collection[str]) -> None:
        """Nobody waits for this one any more; needed: the versions that may yet be started."""
        del self._undecided[name]
        self._versions = {n: v for n, v in self._versions.items() if n in needed}

    def serves(self, name: str) -> None:
        """That version is the one that serves now."""
        outcome = self._undecided.get(name)
        if outcome is not None and not outcome.done():
            outcome.set_result(None)

    def refuse(self, name: str, reason: str) -> None:
        """That version was tried and does not work."""
        outcome = self._undecided.get(name)
        if outcome is not None and not outcome.done():
            outcome.set_exception(RestartRefused(reason))

    def refuse_all(self, reason: str) -> None:
        """No version will ever serve again."""
        for name in self._undecided:
            self.refuse(name, reason)
