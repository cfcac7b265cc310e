"""A real Envoy that is replaced when its files change."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_supervisor import BootstrapError, Envoy, EnvoyConfig, RestartRefused, running
from mesh_agent.envoy._bootstrap_files import BootstrapFiles
from mesh_agent.envoy._restarts import Restarts, signature
from mesh_lifecycle import in_background
from mesh_testkit import hanging_mount, until


class Proxy:
    """An Envoy with a bootstrap and an override of its user's."""

    def __init__(self, envoy: Envoy, restarts: Restarts, override: Path) -> None:
        self.envoy = envoy
        self.restarts = restarts
        self.override = override
        self.obstacle: str | None = None
        self.asked = 0

    def wants(self, cluster: object) -> None:
        new = self.override.with_suffix(".new")
        new.write_text(json.dumps({"node": {"cluster": cluster}}))
        new.rename(self.override)

    async def cluster(self) -> object:
        """What the serving Envoy says it was started with."""
        match await self.envoy.admin.server_info():
            case {"node": {"cluster": cluster}}:
                return cluster
            case answer:
                raise AssertionError(answer)


@asynccontextmanager
async def proxy(directory: Path, binary: Path) -> AsyncIterator[Proxy]:
    admin = {"address": {"pipe": {"path": str(directory / "admin")}}}
    bootstrap, override = directory / "bootstrap.json", directory / "override.json"
    bootstrap.write_text(json.dumps({"node": {"id": "a", "cluster": "a"}, "admin": admin}))
    files = BootstrapFiles(whole=bootstrap, override=override)
    config = EnvoyConfig(
        binary=binary,
        bootstrap=bootstrap,
        directory=directory,
        # The old Envoy must be there still when a slow machine sees that the new one serves.
        parent_shutdown_time=timedelta(seconds=5),
        termination_drain=timedelta(),
        concurrency=1,
    )
    async with running(config) as envoy:
        await envoy.wait_ready(timeout_s=60)
        there: Proxy

        def there_is() -> str | None:
            there.asked += 1
            return there.obstacle

        restarts = Restarts(envoy, config, files, obstacle=there_is, obstacle_look_s=0.05)
        there = Proxy(envoy, restarts, override)
        yield there


async def test_envoy_is_replaced_by_what_its_files_say_or_kept(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with proxy(socket_dir, envoy_binary) as there:
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


@pytest.mark.slow
async def test_a_changed_file_is_followed(socket_dir: Path, envoy_binary: Path) -> None:
    async with proxy(socket_dir, envoy_binary) as there:
        there.wants("b")
        await there.restarts.restart()
        async with following(there):
            there.wants("bb")
            await _until_epoch(there.envoy, 2)
            assert await there.cluster() == "bb"


@pytest.mark.slow
async def test_nothing_is_tried_while_it_could_not_succeed(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with proxy(socket_dir, envoy_binary) as there:
        there.wants("b")
        await there.restarts.restart()
        there.obstacle = "the control plane does not answer"
        async with following(there):
            asked = there.asked
            there.wants("c")
            await until(lambda: there.asked > asked + 2, what="the obstacle is asked for")
            with pytest.raises(RestartRefused, match="does not answer"):
                await there.restarts.restart()
            assert await there.cluster() == "b"
            there.obstacle = None
            await _until_epoch(there.envoy, 2)
            assert await there.cluster() == "c"


@pytest.mark.slow
async def test_a_file_that_is_gone_is_no_reason_to_restart(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with proxy(socket_dir, envoy_binary) as there:
        there.wants("b")
        await there.restarts.restart()
        async with following(there):
            there.override.unlink()
            there.wants("c")
            await _until_epoch(there.envoy, 2)
            assert await there.cluster() == "c"


@pytest.mark.slow
async def test_a_mount_that_hangs_holds_up_neither_the_loop_nor_what_runs(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with proxy(socket_dir, envoy_binary) as there:
        (socket_dir / "mount").mkdir()
        there.wants("b")
        await there.restarts.restart()
        async with following(there):
            with hanging_mount(socket_dir / "mount") as mount:
                link = socket_dir / "link"
                link.symlink_to(mount / "override.json")
                link.rename(there.override)
                with pytest.raises(BootstrapError, match="its file system did not answer"):
                    await there.restarts.restart()
                assert (await there.cluster(), there.envoy.status.epoch) == ("b", 1)
            there.wants("c")
            await _until_epoch(there.envoy, 2)
            assert await there.cluster() == "c"
    for each in threading.enumerate():
        if each.name.startswith("files in"):
            each.join()


@asynccontextmanager
async def following(there: Proxy) -> AsyncIterator[None]:
    """Follow its files, and have them been looked at once."""
    async with in_background(there.restarts.follow(), name="follow"):
        await until(lambda: there.restarts.follows, what="the files are followed")
        yield


async def _until_epoch(envoy: Envoy, epoch: int) -> None:
    try:
        async with asyncio.timeout(60):
            while envoy.status.epoch != epoch:  # noqa: ASYNC110 - a count is no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"waited 60 s in vain for epoch {epoch}; there was {envoy.status}")


async def test_a_file_that_comes_changes_or_goes_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    seen = [await signature([path])]
    for text in ("1", "22"):
        path.write_text(text)
        seen.append(await signature([path]))
    replacement = tmp_path / "b"
    replacement.write_text("33")
    replacement.rename(path)
    seen.append(await signature([path]))
    assert len(set(seen)) == 4
    path.unlink()
    assert await signature([path]) == seen[0]
