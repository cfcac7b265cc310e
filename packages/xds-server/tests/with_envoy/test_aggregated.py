"""Real Envoy, both dialects: everything replaced under traffic, and clusters that warm."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from xds_server import (
    Client,
    NullObserver,
    PushRequest,
    ServerConfig,
    UnixListener,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import admit_all
from xds_state import State

SWAPS = 200


class Watcher(NullObserver):
    """Lets a test wait for what a stream does."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()
        self.sent_of: list[str] = []

    def on_request(self, _client: Client[object], _request: Any, /) -> None:
        self._moved.set()

    def on_response(self, _client: Client[object], response: Any, /) -> None:
        self.sent_of.append(response.type_url)
        self._moved.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        # What came in is looked at again once it has been worked on.
        while not holds():
            self._moved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), 0.05)


@dataclass(kw_only=True)
class Mesh:
    """One Envoy and what feeds it."""

    server: XdsServer[None]
    watcher: Watcher
    state: State
    envoy: Any
    resources: Any
    generation: int = 0

    def replace_everything(self) -> None:
        """New cluster, endpoints and route to it, new listener; the old ones go."""
        old, self.generation = self.generation, self.generation + 1
        name = f"generation-{self.generation}"
        if old:
            self.state.drop(types.CLUSTER, f"generation-{old}")
            self.state.drop(types.ENDPOINT, f"generation-{old}")
        self.state.set(
            self.resources.cluster(name),
            self.resources.endpoints(name),
            self.resources.route(name, self.generation),
            self.resources.listener(self.generation),
        )

    def in_sync(self) -> bool:
        statuses = self.server.clients()
        return bool(statuses) and all(
            kind.in_sync and kind.resources == 1 for kind in statuses[0].types.values()
        )

    async def push(self, *type_urls: str) -> None:
        """Push, and wait until Envoy has accepted these types anew and has no old ones."""
        before = self.nonces(type_urls)
        self.server.push_now(PushRequest())
        await self.until(lambda: self.in_sync() and not before & self.nonces(type_urls))

    def nonces(self, type_urls: Iterable[str]) -> set[str]:
        (status,) = self.server.clients()
        return {status.types[type_url].nonce_acked for type_url in type_urls}

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what the streams do."""
        async with self.envoy.patience(lambda: f"not in sync: {self.server.clients()}"):
            await self.watcher.until(holds)


@pytest.fixture(params=["sotw", "delta"])
async def mesh(request: Any, state: State, tmp_path: Path, real_envoy: Any) -> AsyncIterator[Mesh]:
    watcher = Watcher()
    kinds = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE)
    server: XdsServer[None] = XdsServer(
        dict.fromkeys(kinds, state),
        admit=admit_all,
        config=ServerConfig(debounce_quiet_s=0.001, drain_time_s=0.0),
        observer=watcher,
    )
    server.set_ready()
    path = tmp_path / "xds.sock"
    async with real_envoy.upstream() as upstream, serving(server, [UnixListener(path=path)]):
        resources = real_envoy.resources(request.param, upstream)
        mesh = Mesh(
            server=server, watcher=watcher, state=state, envoy=real_envoy, resources=resources
        )
        mesh.replace_everything()
        address = {"pipe": {"path": str(path)}}
        async with real_envoy.running(address, mode=request.param):
            await mesh.until(lambda: mesh.in_sync() and len(mesh.server.clients()[0].types) == 4)
            yield mesh


async def test_everything_is_replaced_under_traffic_without_an_error(mesh: Mesh) -> None:
    statuses: list[int] = []
    swapping = True

    async def load() -> None:
        while swapping:
            status, _ = await mesh.envoy.get("/")
            statuses.append(status)

    async with asyncio.TaskGroup() as group:
        loads = [group.create_task(load()) for _ in range(3)]
        for _ in range(SWAPS):
            mesh.replace_everything()
            await mesh.push(types.CLUSTER, types.LISTENER, types.ROUTE)
            status, _ = await mesh.envoy.get("/")
            statuses.append(status)
        swapping = False
        await asyncio.wait(loads)
    assert set(statuses) == {200}
    assert len(statuses) > SWAPS
    assert await mesh.envoy.stat(r"cluster_manager\.warming_clusters") == 0
    _, clusters = await mesh.envoy.get("/clusters?format=json", admin=True)
    assert {entry["name"] for entry in json.loads(clusters)["cluster_statuses"]} == {
        "xds",
        f"generation-{mesh.generation}",
    }


async def test_a_cluster_that_changes_alone_is_warm_at_once(mesh: Mesh, capsys: Any) -> None:
    """Its endpoints come again though they did not change: else it warms for 15 seconds."""
    name = f"generation-{mesh.generation}"
    took_s = []
    for change in range(1, 6):
        mesh.state.set(mesh.resources.cluster(name, change=change))
        mesh.watcher.sent_of.clear()
        started = time.monotonic()
        await mesh.push(types.CLUSTER, types.ENDPOINT)
        assert mesh.watcher.sent_of == [types.CLUSTER, types.ENDPOINT]
        assert await mesh.envoy.stat(r"cluster_manager\.warming_clusters") == 0
        took_s.append(time.monotonic() - started)
        assert await mesh.envoy.stat(r"cluster_manager\.cluster_modified") == change
    with capsys.disabled():
        sys.stdout.write(
            f"\nchanged clusters were warm after {1000 * max(took_s):.0f} ms at most\n"
        )


@pytest.mark.slow
async def test_what_would_expire_stays_for_as_long_as_it_is_heard_of(mesh: Mesh) -> None:
    kinds = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE)
    for kind in kinds:
        (only,) = mesh.state.resources[kind].values()
        # Half of it is what Envoy and server may be late by.
        mesh.state.set(replace(only, ttl_s=10.0))
    await mesh.push(*kinds)
    mesh.watcher.sent_of.clear()
    await mesh.until(lambda: all(mesh.watcher.sent_of.count(k) >= 3 for k in kinds))
    assert await mesh.envoy.get("/") == (200, str(mesh.generation))
    rejected = {status.nacks for status in mesh.server.clients()[0].types.values()}
    assert rejected == {0}
    assert await mesh.envoy.stat(r"cluster_manager\.cluster_removed") == 0
    assert await mesh.envoy.stat(r"listener_manager\.listener_removed") == 0
