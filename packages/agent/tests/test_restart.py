"""A real Envoy that is replaced when its files change."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_supervisor import Envoy, EnvoyConfig, RestartRefused, running
from mesh_agent._bootstrap_files import BootstrapFiles
from mesh_agent._restart import Restarts, signature
from mesh_lifecycle import in_background
from mesh_lifecycle.testing import ManualClock


class Proxy:
    """An Envoy with a bootstrap and an override of its user's."""

    def __init__(self, envoy: Envoy, restarts: Restarts, override: Path) -> None:
        self.envoy = envoy
        self.restarts = restarts
        self.override = override
        self.obstacle: str | None = None

    def wants(self, cluster: object) -> None:
        self.override.write_text(json.dumps({"node": {"cluster": cluster}}))

    async def cluster(self) -> object:
        """What the serving Envoy says it was started with."""
        return (await self.envoy.admin.server_info())["node"]["cluster"]  # type: ignore[call-overload,index]


@asynccontextmanager
async def proxy(directory: Path, binary: Path, clock: ManualClock) -> AsyncIterator[Proxy]:
    admin = {"address": {"pipe": {"path": str(directory / "admin")}}}
    bootstrap, override = directory / "bootstrap.json", directory / "override.json"
    bootstrap.write_text(json.dumps({"node": {"id": "a", "cluster": "a"}, "admin": admin}))
    files = BootstrapFiles(whole=bootstrap, override=override)
    config = EnvoyConfig(
        binary=binary,
        bootstrap=bootstrap,
        directory=directory,
        parent_shutdown_time=timedelta(seconds=1),
        termination_drain=timedelta(),
        concurrency=1,
    )
    async with running(config) as envoy:
        await envoy.wait_ready(timeout_s=60)
        there: Proxy
        restarts = Restarts(envoy, config, files, obstacle=lambda: there.obstacle, clock=clock)
        there = Proxy(envoy, restarts, override)
        yield there


async def test_envoy_is_replaced_by_what_its_files_say_or_kept(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with proxy(socket_dir, envoy_binary, ManualClock()) as there:
        assert not await there.restarts.restart()
        there.wants("b")
        assert await there.restarts.restart()
        assert (await there.cluster(), there.envoy.status.epoch) == ("b", 1)
        pid = there.envoy.pid
        there.wants({"not": "text"})
        with pytest.raises(RestartRefused):
            await there.restarts.restart()
        assert there.envoy.status.refused == 1
        assert (await there.cluster(), there.envoy.pid) == ("b", pid)


async def test_a_changed_file_is_followed_when_it_has_settled(
    socket_dir: Path, envoy_binary: Path
) -> None:
    clock = ManualClock()
    async with proxy(socket_dir, envoy_binary, clock) as there:
        async with in_background(there.restarts.follow(), name="follow"):
            await clock.advance(4)
            there.wants("b")
            await clock.advance(2)
            there.wants("bb")  # it is still being written
            await clock.advance(2)
            assert there.envoy.status.epoch == 0
            await clock.advance(2)
            await _until_epoch(there.envoy, 1)
            assert await there.cluster() == "bb"


async def test_nothing_is_tried_while_it_could_not_succeed(
    socket_dir: Path, envoy_binary: Path
) -> None:
    clock = ManualClock()
    async with proxy(socket_dir, envoy_binary, clock) as there:
        there.obstacle = "the control plane does not answer"
        async with in_background(there.restarts.follow(), name="follow"):
            await clock.settle()
            there.wants("b")
            await clock.advance(10)
            with pytest.raises(RestartRefused, match="does not answer"):
                await there.restarts.restart()
            assert await there.cluster() == "a"
            there.obstacle = None
            await clock.advance(2)
            await _until_epoch(there.envoy, 1)
            assert await there.cluster() == "b"


async def test_a_file_that_is_gone_is_no_reason_to_restart(
    socket_dir: Path, envoy_binary: Path
) -> None:
    clock = ManualClock()
    async with proxy(socket_dir, envoy_binary, clock) as there:
        there.wants("b")
        await there.restarts.restart()
        async with in_background(there.restarts.follow(), name="follow"):
            await clock.settle()
            there.override.unlink()
            await clock.advance(10)
            assert there.envoy.status.epoch == 1
            there.wants("c")
            await clock.advance(4)
            await _until_epoch(there.envoy, 2)
            assert await there.cluster() == "c"


async def _until_epoch(envoy: Envoy, epoch: int) -> None:
    try:
        async with asyncio.timeout(60):
            while envoy.status.epoch != epoch:  # noqa: ASYNC110 - a count is no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"waited 60 s in vain for epoch {epoch}; there was {envoy.status}")


def test_a_file_that_comes_changes_or_goes_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    seen = [signature([path])]
    for text in ("1", "22"):
        path.write_text(text)
        seen.append(signature([path]))
    replacement = tmp_path / "b"
    replacement.write_text("33")
    replacement.rename(path)
    seen.append(signature([path]))
    assert len(set(seen)) == 4
    path.unlink()
    assert signature([path]) == seen[0]
