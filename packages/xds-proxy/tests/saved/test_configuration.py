"""What Envoy accepts gets onto the disk off the event loop, and no trouble there costs Envoy."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from envoy.config.core.v3 import base_pb2

from accepted import CLUSTER, LISTENER, SECRET, everything, saved_config
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from xds_proxy.protocol._dialect import STATE_OF_THE_WORLD
from xds_proxy.saved._configuration import SavedConfiguration, saving

PLANES = ("istiod:15012",)


@asynccontextmanager
async def saved_in(
    directory: Path, clock: ManualClock | None = None, *, node: str = "node", **limits: float
) -> AsyncIterator[SavedConfiguration]:
    async with saving(saved_config(directory, **limits), PLANES, clock=clock) as saved:
        saved.belongs_to(node_named(node))
        yield saved


def node_named(node_id: str) -> bytes:
    node = base_pb2.Node(id=node_id, cluster="cluster")
    node.user_agent_build_version.version.major_number = 1
    node.user_agent_build_version.version.minor_number = 36
    return bytes(node.SerializeToString())


def accept(saved: SavedConfiguration, type_url: str = CLUSTER, **resources: str) -> None:
    response = everything(type_url, resources)
    saved.on_acceptance(
        node=saved._node,
        dialect=STATE_OF_THE_WORLD,
        type_url=type_url,
        response=response,
        whole=True,
    )


async def found(directory: Path, type_url: str = CLUSTER, *, node: str = "node") -> set[str] | None:
    async with saved_in(directory, node=node) as saved:
        if await saved.load() is None:
            return None
        return set(await saved.find(type_url) or {})


async def written(saved: SavedConfiguration, times: int) -> None:
    await until(lambda: saved.status.writes >= times, what="a write", seen=lambda: saved.status)


async def test_what_was_accepted_is_found_by_the_next_process(tmp_path: Path) -> None:
    async with saved_in(tmp_path / "s") as saved:
        saved.answering(answers=True)
        accept(saved, a="1", b="2")
        accept(saved, LISTENER)
        await written(saved, 1)
        assert saved.status.problem is None
        assert {name: each.count for name, each in saved.status.types.items()} == {
            CLUSTER: 2,
            LISTENER: 0,
        }
    assert await found(tmp_path / "s") == {"a", "b"}


async def test_what_waits_at_the_end_is_written(tmp_path: Path) -> None:
    async with saved_in(tmp_path / "s", ManualClock()) as saved:
        accept(saved, a="1")
    async with saved_in(tmp_path / "s", ManualClock()) as saved:
        assert await saved.load() is not None


async def test_only_the_newest_of_many_responses_is_written(tmp_path: Path) -> None:
    clock = ManualClock()
    async with saved_in(tmp_path / "s", clock, min_interval_s=10.0) as saved:
        for number in range(500):
            accept(saved, a="x" * 5000, b=str(number))
        assert saved.status.waiting_bytes < 10_000
        await clock.advance(1.0)
        await written(saved, 1)
        for number in range(500):
            accept(saved, c=str(number))
        await clock.advance(9.0)
        assert saved.status.writes == 1
        for _ in range(20):
            await clock.advance(1.0)
        await written(saved, 2)


async def test_large_responses_wait_compressed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with saved_in(tmp_path / "s", clock, min_interval_s=100.0) as saved:
        accept(saved, a="1")
        await clock.advance(1.0)
        await written(saved, 1)
        accept(saved, **{f"cluster-{number}": "x" * 1000 for number in range(200)})
        assert saved.status.waiting_bytes > 200_000
        await clock.advance(2.0)
        await until(
            lambda: saved.status.waiting_bytes < 50_000,
            what="less memory for what waits",
            seen=lambda: saved.status.waiting_bytes,
        )
    async with saved_in(tmp_path / "s", clock) as saved:
        await saved.load()
        assert len(await saved.find(CLUSTER) or {}) == 200


async def test_what_is_saved_counts_from_when_the_control_plane_last_answered(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with saved_in(tmp_path / "s", clock) as saved:
        saved.answering(answers=True)
        accept(saved, a="1")
        await clock.advance(1.0)
        await written(saved, 1)
        await clock.advance(500.0)
        last = clock.now()
        saved.answering(answers=False)
        await clock.advance(300.0)
    async with saved_in(tmp_path / "s", clock) as saved:
        at = await saved.load()
        assert at is not None
        assert at.timestamp() == last


async def test_a_configuration_without_changes_stays_young_while_it_is_current(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with saved_in(tmp_path / "s", clock, max_age_s=0.5) as saved:
        saved.answering(answers=True)
        accept(saved, a="1")
        await clock.advance(1.0)
        await written(saved, 1)
        for number in range(2, 5):
            # Whether it is time for a confirmation is decided by the event loop's clock.
            await until(lambda: 1.0 in clock.sleeping, what="a confirmation")
            await clock.advance(1.0)
            await written(saved, number)


async def test_another_node_gets_nothing_and_the_reason_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with saved_in(tmp_path / "s") as saved:
        accept(saved, a="1")
    async with saved_in(tmp_path / "s", node="another") as saved:
        assert await saved.load() is None
        assert "it was saved for another workload" in (saved.status.problem or "")
    assert "saved configuration is not used" in caplog.messages


@pytest.mark.parametrize("kept", [True, False], ids=["labels", "cluster"])
async def test_labels_do_not_bind_what_is_saved_and_the_cluster_does(
    tmp_path: Path, *, kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The control plane may select by labels; what it does so is newer than an outage's start."""
    before = base_pb2.Node(id="sidecar~10.0.0.1~web.shop~shop.svc.cluster.local", cluster="web")
    before.metadata["LABELS"] = {"version": "v1"}
    after = base_pb2.Node()
    after.CopyFrom(before)
    if kept:
        after.metadata["LABELS"] = {"version": "v2", "team": "another"}
    else:
        after.cluster = "other"
    async with saving(saved_config(tmp_path / "s"), PLANES) as saved:
        saved.belongs_to(before.SerializeToString())
        accept(saved, a="1")
        await written(saved, 1)
    async with saving(saved_config(tmp_path / "s"), PLANES) as saved:
        saved.belongs_to(after.SerializeToString())
        assert (await saved.load() is not None) is kept
        problem = saved.status.problem
    if kept:
        assert problem is None
        assert not caplog.records
    else:
        assert problem == "it was saved for another workload: cluster 'web', and this is 'other'"


async def test_secrets_are_not_even_kept_to_be_written(tmp_path: Path) -> None:
    async with saved_in(tmp_path / "s") as saved:
        accept(saved, SECRET, a="")
        assert saved.status.waiting_bytes == 0
    assert not (tmp_path / "s").exists()


async def test_nothing_is_saved_before_envoy_has_said_which_node_it_is(tmp_path: Path) -> None:
    async with saving(saved_config(tmp_path / "s"), PLANES) as saved:
        accept(saved, a="1")
        assert saved.status.waiting_bytes == 0
        assert await saved.load() is None


async def test_a_node_that_changes_does_not_get_the_others_configuration(tmp_path: Path) -> None:
    async with saved_in(tmp_path / "s") as saved:
        accept(saved, a="1")
        await written(saved, 1)
        saved.belongs_to(node_named("another"))
        accept(saved, LISTENER)
        await written(saved, 2)
    assert await found(tmp_path / "s", node="another") == set()
    assert await found(tmp_path / "s") is None


async def test_a_directory_that_cannot_be_created_is_logged_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    (tmp_path / "s").write_text("a file in the place of the directory")
    async with saved_in(tmp_path / "s", clock) as saved:
        accept(saved, a="1")
        await clock.advance(1.0)
        await until(
            lambda: "configuration is neither saved nor used" in caplog.messages, what="a warning"
        )
        for _ in range(30):
            await clock.advance(1.0)
        (tmp_path / "s").unlink()

        async def some_time_later() -> bool:
            await clock.advance(20.0)
            return saved.status.writes > 0

        await until(some_time_later, what="a write", seen=lambda: saved.status)
        assert saved.status.problem is None
    assert caplog.messages.count("configuration is neither saved nor used") == 1
    assert (tmp_path / "s" / "configuration.list").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        async with saved_in(tmp_path / "s") as saved:
            accept(saved, a="1")
            await until(lambda: saved.status.problem, what="a problem")
    finally:
        tmp_path.chmod(0o700)


async def test_too_much_is_reported_and_what_was_saved_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with saved_in(tmp_path / "s", max_bytes=2000) as saved:
        accept(saved, a="1")
        await written(saved, 1)
        accept(saved, a="x" * 5000)
        await until(lambda: saved.status.problem, what="a problem")
        assert saved.status.types == {}
        assert "at most 2000 are saved" in (saved.status.problem or "")
        accept(saved, a="2")
        await written(saved, 2)
        assert saved.status.problem is None
    assert caplog.messages.count("the configuration is not saved") == 1


async def test_a_malformed_response_ends_nothing(tmp_path: Path) -> None:
    async with saved_in(tmp_path / "s") as saved:
        saved.on_acceptance(
            node=node_named("node"),
            dialect=STATE_OF_THE_WORLD,
            type_url=CLUSTER,
            response=b"\xff\xff\xff",
            whole=True,
        )
        await until(lambda: saved.status.problem, what="a problem")
        accept(saved, a="1")
        await written(saved, 1)


async def test_a_failure_of_our_own_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> frozenset[str]:
        raise RuntimeError("a mistake")

    async with saved_in(tmp_path / "s") as saved:
        response = everything(CLUSTER, {"a": "1"})
        saved.on_acceptance(
            node=node_named("node"),
            dialect=STATE_OF_THE_WORLD,
            type_url=CLUSTER,
            response=response,
            whole=False,
            keep=broken,
        )
        await until(lambda: saved.status.problem, what="a problem")
        accept(saved, a="1")
        await written(saved, 1)
    assert any(each.levelno == logging.ERROR for each in caplog.records)


async def test_two_at_one_directory_are_distinguished(tmp_path: Path) -> None:
    async with saved_in(tmp_path / "s") as first:
        accept(first, a="1")
        await written(first, 1)
        async with saved_in(tmp_path / "s") as second:
            assert await second.load() is None
            accept(second, b="1")
            await until(lambda: second.status.problem, what="a problem")
            assert second.status.problem == "another agent has this directory"
            second._waiting.clear()
    assert await found(tmp_path / "s") == {"a"}


async def test_the_event_loop_runs_while_much_is_written(tmp_path: Path) -> None:
    resources = {f"cluster-{number}": "x" * 500 for number in range(20_000)}
    async with saved_in(tmp_path / "s", max_bytes=1 << 26, max_resources=100_000) as saved:
        accept(saved, **resources)
        steps = 0
        while not saved.status.writes:
            steps += 1
            await asyncio.sleep(0)
    assert steps > 1
