"""Real Envoy: cluster, route name and listener replaced together, at a pace, under traffic.

`XDS_SERVER_SWAPS=200` asks for as many as the figures in the README are of; the default is fewer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from xds_server import PushRequest, ServerConfig, UnixListener, XdsServer, serving
from xds_server import type_urls as types
from xds_server.testing import admit_all
from xds_state import State

SWAPS = int(os.environ.get("XDS_SERVER_SWAPS", "40"))
DRAIN_S = 2
LATE_S = 5
"""By how much later than we hear of its listener Envoy may begin to drain."""
TRAFFIC = Path(__file__).with_name("traffic.py")


@asynccontextmanager
async def traffic() -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, TRAFFIC, stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def read(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


def replace_everything(state: State, resources: Any, number: int) -> None:
    state.resources.clear()
    name = f"c{number}"
    state.set(
        resources.cluster(name),
        resources.endpoints(name),
        resources.route(name, number, name=f"r{number}"),
        resources.listener(number, route=f"r{number}"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("pace_s", [0.1, 0.01], ids=["at 100 ms", "at 10 ms"])
@pytest.mark.parametrize("mode", ["sotw", "delta"])
async def test_nothing_fails_and_nothing_old_stays(
    mode: str, pace_s: float, *, state: State, real_envoy: Any, tmp_path: Path, capsys: Any
) -> None:
    kinds = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE)
    # Longer than Envoy takes: it begins when a listener is ready, which we do not hear of.
    config = ServerConfig(drain_time_s=DRAIN_S + LATE_S)
    server: XdsServer[None] = XdsServer(dict.fromkeys(kinds, state), admit=admit_all, config=config)
    server.set_ready()
    path = tmp_path / "xds.sock"

    async def generation() -> str:
        said: str = (await real_envoy.get("/"))[1]
        return said

    async def active_clusters() -> str:
        return str(await real_envoy.stat(r"cluster_manager\.active_clusters"))

    async with traffic() as load, serving(server, [UnixListener(path=path)]):
        resources = real_envoy.resources(mode, await read(load))
        replace_everything(state, resources, 0)
        options = ("--drain-time-s", str(DRAIN_S), "--drain-strategy", "gradual")
        address = {"pipe": {"path": str(path)}}
        async with real_envoy.running(address, mode=mode, options=options):
            await real_envoy.until(generation, "0")
            assert load.stdin is not None
            load.stdin.write(f"{real_envoy.port}\n".encode())
            started = time.monotonic()
            for number in range(1, SWAPS + 1):
                # Kept to on a busy machine too: what is late is not caught up with.
                await asyncio.sleep(pace_s)
                replace_everything(state, resources, number)
                server.push_now(PushRequest())
            took_s = time.monotonic() - started
            await real_envoy.until(generation, str(SWAPS))
            listeners = await real_envoy.stat(r"listener_manager\.lds\.update_success")
            await real_envoy.until(active_clusters, "2")  # the newest, and the one of xDS
            load.stdin.close()
            outcomes = await read(load)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{mode}: {SWAPS} swaps in {took_s:.1f} s, {listeners} of them taken over:"
            f" {outcomes}\n"
        )
    assert outcomes.keys() <= {"200", "ended between requests"}
    assert outcomes["200"] > SWAPS
