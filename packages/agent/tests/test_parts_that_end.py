"""A part of a running agent that ends by itself ends the rest, in order and with one sentence.

Each part keeps a task while it serves, so a part is ended here by ending its task.
"""

import asyncio
import re
from pathlib import Path

import pytest

from mesh_lifecycle import ServiceEnded
from mesh_testkit import until
from running_agents import agent_process, ask, listener, own_address, running_agent

DNS = f"{own_address()}:15053"
PARTS = {
    "certificates": "certificate files",
    "SDS server": "secret changes",
    "SDS server's responses": "xds untaken responses",
    "DNS server": "name tables",
    "DNS server's upstreams": "resolv.conf",
    "relay": "xds-proxy: pending writes to Envoy",
    "readiness of Envoy": "envoy-readiness",
    "readiness by certificate": "certificate",
    "certificate that Envoy serves": "served-certificate",
}
"""The name of a task by the part that keeps it."""

# Python runs it before the agent's program: ends the task that a file names, once there is one.
SABOTEUR = """
import asyncio, gc, os, threading, time
from pathlib import Path

def end():
    while not (named := Path(os.environ["TASK_TO_END"])).exists():
        time.sleep(0.05)
    for each in gc.get_objects():
        if isinstance(each, asyncio.Task) and each.get_name() == named.read_text():
            each.get_loop().call_soon_threadsafe(each.cancel)

if "TASK_TO_END" in os.environ:
    threading.Thread(target=end, daemon=True).start()
"""


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_that_ends_by_itself_ends_the_agent(
    socket_dir: Path, envoy_binary: Path, part: str
) -> None:
    async with running_agent(
        socket_dir,
        envoy_binary,
        expect=ServiceEnded,
        ISTIO_META_DNS_CAPTURE="true",
        DNS_PROXY_ADDR=DNS,
    ) as agent:
        await agent.plane.give_all(listener("web"))
        await agent.status()  # all have started
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == PARTS[part])
        task.cancel()
        await until(agent.task.done, what="the agent's end")
    assert f"{PARTS[part]} ended" in str(agent.task.exception())
    assert await ask(own_address(), 15020, "/healthz/ready") == (0, "")


@pytest.mark.parametrize("part", ["SDS server", "DNS server", "relay"])
async def test_the_process_says_which_part_ended_stops_the_others_and_fails(
    socket_dir: Path, envoy_binary: Path, part: str
) -> None:
    (socket_dir / "before").mkdir()
    (socket_dir / "before/sitecustomize.py").write_text(SABOTEUR)
    named = socket_dir / "task"
    async with agent_process(
        socket_dir,
        envoy_binary,
        PYTHONPATH=str(socket_dir / "before"),
        TASK_TO_END=str(named),
        ISTIO_META_DNS_CAPTURE="true",
        DNS_PROXY_ADDR=DNS,
    ) as agent:
        await until(lambda: "envoy ready" in agent.said(), what="Envoy", seen=agent.said)
        (socket_dir / "task.new").write_text(PARTS[part])
        (socket_dir / "task.new").rename(named)
        assert await agent.wait() == 1
        said = agent.said()
        assert "Traceback" not in said
        ends = [line for line in said.splitlines() if line.startswith("mesh-agent: ")]
        assert ends == [
            f"mesh-agent: {PARTS[part]} ended, though it should run until it is stopped"
        ]
        # Envoy went first, and in peace; what it depends on went after it.
        assert re.search(r"envoy .*(exited|ended|stopped)", said), said
        assert agent.left_behind() == []
