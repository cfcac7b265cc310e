"""Every state of a real Envoy, and what the agent says of it at `/healthz/ready`."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest_asyncio

from mesh_lifecycle import Condition
from mesh_protos import type_urls
from mesh_testkit import until
from running_agents import (
    LISTENER_PORT,
    RunningAgent,
    cluster,
    listener,
    own_address,
    rds,
    running_agent,
)


@pytest_asyncio.fixture
async def agent(socket_dir: Path, envoy_binary: Path) -> AsyncIterator[RunningAgent]:
    async with running_agent(socket_dir, envoy_binary) as running:
        yield running


async def test_not_received_then_partly_then_initialising_then_ready(agent: RunningAgent) -> None:
    await agent.until_ready_says(503, "envoy: configuration not received from the control plane")
    await agent.plane.give(type_urls.CLUSTER)
    await agent.until_ready_says(
        503, "not fully received from the control plane: there are no listeners (LDS) yet"
    )
    await agent.plane.give(type_urls.LISTENER, listener("web", filter_=rds("routes")))
    await agent.until_ready_says(503, "not live, current state is INITIALIZING")
    assert (await agent.status())["conditions"]["envoy"].endswith("INITIALIZING")
    await agent.plane.give(type_urls.LISTENER, listener("web"))
    await agent.until_ready_says(200, "")
    status = await agent.status()
    assert status["conditions"] == {"certificate": "", "envoy": ""}
    assert set(status["details"].values()) == {""}


def envoy_runs(pid: int) -> bool:
    """Say whether it may have sockets still: a process that was not waited for has none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not stat.rpartition(")")[2].startswith(" Z")


async def test_no_connection_is_refused_from_ready_on_even_if_envoy_is_killed_at_once(
    agent: RunningAgent,
) -> None:
    pid = (await agent.status())["envoy"]["pid"]
    await agent.plane.give_all(listener("web"))
    while (await agent.ask("/healthz/ready"))[0] != HTTPStatus.OK:
        pass  # at once: the moment after Envoy got ready is what this is about
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not envoy_runs(pid), what="Envoy's end")
    reader, writer = await asyncio.open_connection(own_address(), LISTENER_PORT)
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
    finally:
        writer.close()


async def test_rejected_is_reported_in_envoy_s_words(agent: RunningAgent) -> None:
    await agent.plane.give(type_urls.CLUSTER, cluster("bad", type="LOGICAL_DNS"))
    await agent.until_ready_says(503, "but rejected: clusters (CDS), version '1': ")
    _, said = await agent.ask("/healthz/ready")
    assert "bad" in said
    assert said.count("\n") == 1, "one line"


async def test_what_counts_is_now_and_not_what_was_refused_once(agent: RunningAgent) -> None:
    await agent.plane.give(type_urls.CLUSTER, cluster("bad", type="LOGICAL_DNS"))
    await agent.until_ready_says(503, "but rejected: clusters (CDS), version '1'")
    await agent.plane.give(type_urls.CLUSTER)
    await agent.until_ready_says(503, "there are no listeners (LDS) yet")
    assert "rejected" not in (await agent.ask("/healthz/ready"))[1]
    await agent.plane.give(type_urls.LISTENER, listener("web"))
    await agent.until_ready_says(200, "")
    # While the last good configuration serves, a refusal is reported and the workload stays ready.
    await agent.plane.give(type_urls.CLUSTER, cluster("worse", type="LOGICAL_DNS"))
    await agent.until_ready_says(
        200, "configuration: refused, the last good one is in use: clusters (CDS), version '3': "
    )
    assert "worse" in (await agent.status())["details"]["configuration"]
    await agent.plane.give(type_urls.CLUSTER)

    async def gone() -> bool:
        return await agent.ask("/healthz/ready") == (200, "")

    await until(gone, what="the refusal to be over")


async def test_draining_is_reported_and_the_workload_stays_ready(agent: RunningAgent) -> None:
    await agent.plane.give_all(listener("web"))
    await agent.until_ready_says(200, "")
    assert (await agent.ask("/drain", "POST"))[0] == 200
    await agent.until_ready_says(200, "draining: envoy asks its clients to leave, and serves on")


async def test_an_envoy_that_drains_before_it_was_ready_is_not_ready(agent: RunningAgent) -> None:
    await agent.plane.give(type_urls.CLUSTER)
    await agent.until_ready_says(503, "there are no listeners (LDS) yet")
    assert (await agent.ask_envoy("/healthcheck/fail", "POST"))[0] == 200
    await agent.plane.give(type_urls.LISTENER, listener("web"))
    await agent.until_ready_says(503, "envoy: not live, current state is DRAINING")
    assert (await agent.ask_envoy("/healthcheck/ok", "POST"))[0] == 200
    await agent.until_ready_says(200, "")


async def test_a_terminating_agent_is_not_ready(socket_dir: Path, envoy_binary: Path) -> None:
    drain = {"terminationDrainDuration": "20s"}
    async with running_agent(socket_dir, envoy_binary, proxy=drain) as agent:
        await agent.plane.give_all(listener("web"))
        await agent.until_ready_says(200, "")
        _, writer = await asyncio.open_connection(own_address(), LISTENER_PORT)
        try:
            # A request that has begun keeps Envoy until the connection is closed.
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n")
            await agent.ask("/quitquitquit", "POST")
            await agent.until_ready_says(503, "stopping: /quitquitquit")
            assert not agent.task.done()
        finally:
            writer.close()


async def test_a_gateway_without_a_listener_is_not_ready(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with running_agent(socket_dir, envoy_binary, flags={"role": "router"}) as agent:
        await agent.plane.give_all()
        await agent.until_ready_says(503, "envoy: the gateway has no listener yet")
        await agent.plane.give(type_urls.LISTENER, listener("web"))
        await agent.until_ready_says(200, "")
        await agent.plane.give(type_urls.LISTENER)
        await agent.until_ready_says(200, "gateway: it has no listener, and takes no requests")


async def test_a_gateway_may_be_ready_without_a_listener_if_it_is_configured_so(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with running_agent(
        socket_dir,
        envoy_binary,
        flags={"role": "router"},
        MESH_AGENT_READY_WITHOUT_LISTENERS="true",
    ) as agent:
        await agent.plane.give_all()
        await agent.until_ready_says(200, "")


async def test_further_conditions_count(socket_dir: Path, envoy_binary: Path) -> None:
    there = asyncio.Event()

    async def database(condition: Condition) -> None:
        condition.unset("it does not answer")
        await there.wait()
        condition.set()
        await asyncio.Event().wait()

    async with running_agent(socket_dir, envoy_binary, conditions={"database": database}) as agent:
        await agent.plane.give_all(listener("web"))
        await agent.until_ready_says(503, "database: it does not answer")
        assert (await agent.status())["conditions"]["database"] == "it does not answer"
        there.set()
        await agent.until_ready_says(200, "")


async def test_a_condition_whose_service_fails_ends_the_agent_in_order(
    socket_dir: Path, envoy_binary: Path
) -> None:
    class DatabaseLost(Exception):
        """What the service of the condition depends on is gone."""

    fails = asyncio.Event()

    async def database(condition: Condition) -> None:
        condition.set()
        await fails.wait()
        raise DatabaseLost

    async with running_agent(
        socket_dir, envoy_binary, conditions={"database": database}, expect=DatabaseLost
    ) as agent:
        await agent.plane.give_all(listener("web"))
        await agent.until_ready_says(200, "")
        fails.set()
        await asyncio.wait({agent.task}, timeout=60)
        assert agent.task.done()
