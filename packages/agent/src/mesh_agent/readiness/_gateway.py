"""Readiness of a gateway by its listeners: without any from the control plane it takes no requests.

A gateway is not ready before its first listener (see docs/decisions/0022); `_envoy.py` asks for
that once Envoy is configured. A gateway that loses its last one stays ready, and says so.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

import envoy_supervisor

log = logging.getLogger(__name__)

_AGAIN_S = 1.0
_QUERY = "resource=dynamic_listeners&mask=name,active_state.version_info"


class DumpsConfiguration(Protocol):
    """The part of Envoy's admin interface that is asked here."""

    async def config_dump(self, query: str, /) -> Mapping[str, envoy_supervisor.JSON]:
        """Return the part of the configuration that the query names; raises `AdminError`."""


class GatewayEnvoy(Protocol):
    """The Envoy of a gateway."""

    @property
    def admin(self) -> DumpsConfiguration: ...


async def active_listeners(admin: DumpsConfiguration) -> int:
    """Return how many listeners of the control plane's Envoy has active; raises `AdminError`."""
    configs = (await admin.config_dump(_QUERY)).get("configs", [])
    if not isinstance(configs, list):
        return 0
    return sum(isinstance(each, dict) and "active_state" in each for each in configs)


async def no_listener_yet(admin: DumpsConfiguration) -> str | None:
    """Return why a gateway is not ready, None once it has a listener; raises `AdminError`."""
    return None if await active_listeners(admin) else "the gateway has no listener yet"


class GatewayListeners:
    """Counts the listeners again each time that the control plane has changed them."""

    def __init__(self, envoy: GatewayEnvoy) -> None:
        self._envoy = envoy
        self._changed = asyncio.Event()
        self.count: int | None = None
        """None as long as Envoy has not answered."""

    @property
    def trouble(self) -> str | None:
        """That there is none, in words; None if there is one."""
        return "it has no listener, and takes no requests" if self.count == 0 else None

    def listeners_changing(self) -> None:
        """A response with listeners is about to go to Envoy: of no interest before the answer."""

    def listeners_changed(self) -> None:
        """Envoy has answered the last response with listeners."""
        self._changed.set()

    async def follow(self) -> None:
        """Count after each change. Runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                self.count = await active_listeners(self._envoy.admin)
            except envoy_supervisor.AdminError as error:
                log.debug("envoy's listeners are not known", extra={"reason": str(error)})
                await asyncio.sleep(_AGAIN_S)
                self._changed.set()
