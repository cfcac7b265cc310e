"""Delta answers that decide whether Envoy waits: for what does not exist, and for what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mesh_testkit import find_free_port
from xds_server import (
    Client,
    DeltaRequest,
    NullObserver,
    PlainListener,
    Response,
    Snapshot,
    SnapshotStore,
    SotwRequest,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import admit_all


@dataclass
class Watcher(NullObserver):
    """Notes what is asked and answered, by type."""

    requested: list[str] = field(default_factory=list)
    sent_of: list[str] = field(default_factory=list)

    def on_request(self, _client: Client[Any], request: SotwRequest | DeltaRequest) -> None:
        self.requested.append(request.type_url)

    def on_response(self, _client: Client[Any], response: Response) -> None:
        self.sent_of.append(response.type_url)


@asynccontextmanager
async def served(store: SnapshotStore[None], port: int) -> AsyncIterator[tuple[Any, Watcher]]:
    watcher = Watcher()
    server: XdsServer[None] = XdsServer(store.generators(), admit=admit_all, observer=watcher)
    server.set_ready()
    async with serving(server, [PlainListener(port=port)]):
        yield server, watcher


def at(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


async def test_a_cluster_without_endpoints_does_not_wait_for_them(real_envoy: Any) -> None:
    """Envoy is sent that there are none; else it asks itself for 15 seconds."""
    port = find_free_port()
    resources = real_envoy.resources("delta", 1)
    store: SnapshotStore[None] = SnapshotStore()
    store.set("envoy", Snapshot.build([resources.cluster("lonely")]))

    async def known() -> str:
        _, clusters = await real_envoy.get("/clusters", admin=True)
        warming = await real_envoy.stat(r"cluster_manager\.warming_clusters")
        return f"{'lonely::' in clusters} {warming}"

    async with served(store, port), real_envoy.running(at(port), mode="delta"):
        await real_envoy.until(known, "True 0")
        assert await real_envoy.stat(r"cluster\.lonely\.init_fetch_timeout") == 0
        assert await real_envoy.stat(r"cluster\.lonely\.update_empty") == 1


async def test_endpoints_that_envoy_has_are_not_sent_when_it_comes_back(real_envoy: Any) -> None:
    port = find_free_port()
    async with real_envoy.upstream() as upstream:
        resources = real_envoy.resources("delta", upstream)
        store: SnapshotStore[None] = SnapshotStore()

        def everything(generation: int) -> Snapshot:
            return Snapshot.build(
                [
                    resources.cluster("web"),
                    resources.endpoints("web"),
                    resources.listener(0),
                    resources.route("web", generation),
                ]
            )

        async def generation() -> str:
            status, seen = await real_envoy.get("/")
            return f"{status} {seen}"

        store.set("envoy", everything(1))
        async with AsyncExitStack() as first, AsyncExitStack() as second:
            _, watcher = await first.enter_async_context(served(store, port))
            await second.enter_async_context(real_envoy.running(at(port), mode="delta"))
            await real_envoy.until(generation, "200 1")
            assert watcher.sent_of.count(types.ENDPOINT) == 1
            await first.aclose()
            store.set("envoy", everything(2))
            _, watcher = await second.enter_async_context(served(store, port))
            await real_envoy.until(generation, "200 2")
            assert types.ENDPOINT in watcher.requested
            assert types.ENDPOINT not in watcher.sent_of
            assert await real_envoy.stat(r"cluster_manager\.warming_clusters") == 0
