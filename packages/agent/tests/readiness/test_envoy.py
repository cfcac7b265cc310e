import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

import xds_proxy
from envoy_supervisor import JSON, AdminError
from mesh_agent.readiness._envoy import watch_envoy
from mesh_lifecycle import Readiness, in_background

GOOD = {
    "cluster_manager.cds.update_success": 1,
    "listener_manager.lds.update_success": 1,
    "listener_manager.workers_started": 1,
    "server.state": 0,
}


class Envoy:
    """Answers when `answers` is set, and ends when `ended` is."""

    def __init__(self) -> None:
        self.answers = False
        self.asked = asyncio.Event()
        self.ended = asyncio.Event()
        self.pid = 7

    @property
    def admin(self) -> "Envoy":
        return self

    async def stats(self, _pattern: str, /) -> Mapping[str, int | str]:
        self.asked.set()
        if not self.answers:
            raise AdminError("connection refused")
        return GOOD

    async def config_dump(self, _query: str, /) -> Mapping[str, JSON]:
        return {}

    async def wait_retained(self, _timeout_s: float, /) -> None:
        """It listens nowhere."""

    async def wait_down(self) -> None:
        await self.ended.wait()
        self.ended.clear()


class Relay:
    status = xds_proxy.RelayStatus(
        connected=False,
        since=datetime(2030, 1, 1, tzinfo=UTC),
        last_error="no route to host",
        types={},
        streams=0,
    )


async def test_an_envoy_that_ends_is_not_ready_until_the_next_one_is_at_work() -> None:
    envoy, readiness = Envoy(), Readiness()
    ready = readiness.register("envoy")
    watch = watch_envoy(envoy, ready, poll_s=0, relay=Relay())
    async with in_background(watch, name="watch"):
        await envoy.asked.wait()
        assert readiness.reasons() == ("envoy: connection refused",)
        envoy.answers = True
        await readiness.wait_ready()
        envoy.answers = False
        envoy.asked.clear()
        envoy.ended.set()
        await envoy.asked.wait()
        assert not readiness.ready
        assert readiness.reasons() == ("envoy: connection refused",)
        envoy.answers = True
        await readiness.wait_ready()
