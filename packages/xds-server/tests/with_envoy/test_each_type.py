"""Real Envoy without an aggregated stream: a service a type in both dialects, and REST polling.

Nothing orders one stream against another here, so a change goes in steps: the new cluster, the
route to it when it is there, and the end of the old one when nothing points to it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from xds_server import (
    Peer,
    PushRequest,
    ServerConfig,
    UnixListener,
    XdsServer,
    answer_rest,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import admit_all
from xds_state import State

SWAPS = {"sotw-each": 200, "delta-each": 200, "rest": int(os.environ.get("XDS_REST_SWAPS", "30"))}
"""Polling takes a quarter of a second a swap, so there are fewer by default."""


@asynccontextmanager
async def rest_server(server: XdsServer[None], path: Path) -> AsyncIterator[None]:
    """The least HTTP server that `answer_rest` can be mounted in."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                body = await reader.readexactly(length)
                peer = Peer(address="unix:")
                reply = await answer_rest(server, head.split(" ", 2)[1], body, peer)
                lines = f"HTTP/1.1 {reply.status} X\r\ncontent-length: {len(reply.body)}\r\n\r\n"
                writer.write(lines.encode() + reply.body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_unix_server(answer, path)
    async with listening, server.running():
        yield
        listening.close()
    path.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", SWAPS)
async def test_everything_is_replaced_in_steps_without_an_error(
    mode: str, state: State, real_envoy: Any, tmp_path: Path
) -> None:
    kinds = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE)
    server: XdsServer[None] = XdsServer(
        dict.fromkeys(kinds, state), admit=admit_all, config=ServerConfig(drain_time_s=0.0)
    )
    server.set_ready()
    path = tmp_path / "xds.sock"
    listening: Any = (
        rest_server(server, path) if mode == "rest" else serving(server, [UnixListener(path=path)])
    )
    statuses: list[int] = []
    going = True

    async def load() -> None:
        while going:
            statuses.append((await real_envoy.get("/"))[0])

    async def active_clusters() -> str:
        warming = await real_envoy.stat(r"cluster_manager\.warming_clusters")
        active = await real_envoy.stat(r"cluster_manager\.active_clusters")
        return f"{active} active, {warming} warming"

    async def generation() -> str:
        said: str = (await real_envoy.get("/"))[1]
        return said

    async with real_envoy.upstream() as upstream, listening:
        resources = real_envoy.resources(mode, upstream)

        def bring(number: int) -> None:
            state.set(resources.cluster(f"c{number}"), resources.endpoints(f"c{number}"))

        def point_to(number: int) -> None:
            state.set(resources.route(f"c{number}", number), resources.listener(number))

        bring(0)
        point_to(0)
        async with real_envoy.running({"pipe": {"path": str(path)}}, mode=mode):
            await real_envoy.until(generation, "0")
            loading = asyncio.create_task(load())
            for number in range(1, SWAPS[mode] + 1):
                bring(number)
                server.push_now(PushRequest())
                await real_envoy.until(active_clusters, "3 active, 0 warming")
                point_to(number)
                server.push_now(PushRequest())
                await real_envoy.until(generation, str(number))
                state.drop(types.CLUSTER, f"c{number - 1}")
                state.drop(types.ENDPOINT, f"c{number - 1}")
                server.push_now(PushRequest())
                await real_envoy.until(active_clusters, "2 active, 0 warming")
            going = False
            await loading
    assert set(statuses) == {200}
    assert len(statuses) > SWAPS[mode]
