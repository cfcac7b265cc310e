"""A client that comes and goes again and again has few lines in the log."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from mesh_lifecycle.testing import ManualClock
from xds_server.protocol._type_urls import CLUSTER
from xds_server.streams.logs._client_log import ClientLog
from xds_server.testing import SotwClient, in_memory
from xds_state import Running

log = logging.getLogger("xds_server.clients")


class Clients:
    """Clients on a clock of their own, and the lines about them."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.clock = ManualClock()
        self.log = ClientLog(log, clock=self.clock)
        self._caplog = caplog

    async def stream(self, client: str, *, lasts_s: float = 1.0) -> None:
        stream = self.log.on_connect(client, {"client": client})
        await self.clock.advance(lasts_s)
        self.log.on_disconnect(stream, {"client": client})

    def lines(self) -> Counter[str]:
        """Return how often there is each message since the last call."""
        found = Counter(each.getMessage() for each in self._caplog.records)
        self._caplog.clear()
        return found


@pytest.fixture
def clients(caplog: pytest.LogCaptureFixture) -> Clients:
    return Clients(caplog)


async def test_a_client_that_flaps_all_day_has_a_line_an_hour(clients: Clients) -> None:
    for _ in range(24 * 3600 // 20):
        await clients.stream("a", lasts_s=10.0)
        await clients.clock.advance(10.0)
    counts = clients.lines()
    assert counts.pop("client reconnecting, repeatedly") in range(24, 31)
    assert counts == {"client connected": 3, "client disconnected": 3, "client reconnecting": 1}


async def test_a_client_that_stays_has_lines_again(clients: Clients) -> None:
    for _ in range(10):
        await clients.stream("a")
    clients.lines()

    await clients.stream("a", lasts_s=3600.0)  # the last of the seven that are logged as a number
    counts = clients.lines()
    assert counts["client disconnected"] == 1
    await clients.stream("a")
    counts += clients.lines()
    assert (counts["client reconnecting, no longer"], counts["client connected"]) == (1, 1)


async def test_streams_far_apart_or_at_once_are_no_repeats(clients: Clients) -> None:
    for _ in range(10):
        await clients.stream("a", lasts_s=1.0)
        await clients.clock.advance(180.0)
    assert clients.lines() == {"client connected": 10, "client disconnected": 10}

    open_streams = [clients.log.on_connect("b", {}) for _ in range(10)]
    await clients.clock.advance(180.0)
    for stream in open_streams:
        clients.log.on_disconnect(stream, {})
    assert clients.lines() == {"client connected": 10, "client disconnected": 10}


async def test_each_client_has_its_own_lines_and_few_are_remembered(clients: Clients) -> None:
    for number in range(10_100):
        stream = clients.log.on_connect(f"client {number}", {})
        clients.log.on_disconnect(stream, {})
    assert clients.lines() == {"client connected": 10_100, "client disconnected": 10_100}
    assert len(clients.log._short) == 10_000
    await clients.clock.advance(180.0)
    await clients.stream("one more")
    assert len(clients.log._short) == 1


async def test_a_servers_client_that_flaps_has_few_lines(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running() as server:
        for _ in range(20):
            async with in_memory(server) as wire:
                await SotwClient(wire, node_id="restless").subscribe(CLUSTER)
                async with in_memory(server) as other:
                    await SotwClient(other, node_id="steady").subscribe(CLUSTER)
    counts = Counter(each.getMessage() for each in caplog.records)
    assert counts == {"client connected": 6, "client disconnected": 6, "client reconnecting": 2}
