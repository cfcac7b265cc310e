"""Clusters that wait for their endpoints: where the agent names them, on a real Envoy."""

from pathlib import Path

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from google.protobuf import json_format

from envoy_supervisor import JSON
from mesh_agent.readiness._warming import warming_clusters, warming_fault
from mesh_protos import type_urls
from mesh_testkit import until
from running_agents import RunningAgent, cluster, listener, running_agent

ADS = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}


def waiting(name: str) -> cluster_pb2.Cluster:
    """A cluster that Envoy does not use before it has its endpoints."""
    return cluster(name, type="EDS", eds_cluster_config={"eds_config": ADS})


def endpoints(name: str) -> endpoint_pb2.ClusterLoadAssignment:
    return json_format.ParseDict({"cluster_name": name}, endpoint_pb2.ClusterLoadAssignment())


async def until_warming(agent: RunningAgent, *names: str) -> None:
    """Wait until the status names these and no others."""
    seen: object = None

    async def are_named() -> bool:
        nonlocal seen
        seen = envoy = (await agent.status())["envoy"]
        return (envoy.get("warming"), envoy.get("warming_clusters")) == (len(names), list(names))

    await until(are_named, what=f"{names} in the status", seen=lambda: seen)


async def test_a_cluster_that_warms_is_named_by_readiness_and_status(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with running_agent(socket_dir, envoy_binary) as agent:
        await agent.plane.give(type_urls.CLUSTER, cluster("good"), waiting("stuck"))
        await agent.plane.give(type_urls.LISTENER, listener("web"))
        await agent.until_ready_says(503, "clusters: 1 warming, without endpoints")
        await agent.until_ready_says(503, "that they name: stuck")
        await until_warming(agent, "stuck")
        await agent.plane.give(type_urls.ENDPOINT, endpoints("stuck"))
        await agent.until_ready_says(200, "")
        await until_warming(agent)


class Many:
    """An Envoy that waits for many clusters."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    async def config_dump(self, _query: str, /) -> dict[str, JSON]:
        self.asked += 1
        return {"configs": [{"cluster": {"name": f"c{n:05}"}} for n in range(self.count)]}


async def test_of_many_a_few_are_named_and_of_very_many_none() -> None:
    some, very_many = Many(30), Many(5000)
    fault = await warming_fault(some, {"cluster_manager.warming_clusters": 30})
    assert fault.endswith("c00008, c00009 and 20 more")
    fault = await warming_fault(very_many, {"cluster_manager.warming_clusters": 5000})
    assert fault == "5000 warming, without endpoints or a secret that they name"
    assert (some.asked, very_many.asked) == (1, 0)


async def test_an_answer_that_is_something_else_names_none() -> None:
    class Other:
        async def config_dump(self, _query: str, /) -> dict[str, JSON]:
            return {"configs": [None, {"cluster": 1}, {"cluster": {"name": 2}}]}

    assert await warming_clusters(Other(), 3) == ()
    assert await warming_fault(Other(), {}) == ""
