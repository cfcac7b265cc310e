"""Routes and endpoints that a real Envoy refuses: where the agent tells it, and what works on."""

import asyncio
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.status.v3 import csds_pb2
from google.protobuf import json_format
from google.protobuf.message import Message

from mesh_protos import type_urls
from mesh_testkit import PATIENCE_S, until
from running_agents import (
    LISTENER_PORT,
    RunningAgent,
    ask,
    cluster,
    listener,
    own_address,
    rds,
    running_agent,
)

pytestmark = pytest.mark.slow

REASON = "no argument for repetition operator"
CSDS = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus"
NAMES = ("first", "middle", "zlast")
ADS = {"ads": {}, "resource_api_version": "V3"}
DIALECTS = pytest.mark.parametrize("delta", ["false", "true"])
Figure = Callable[[str, object], None]


def route(name: str, status: int, *, bad: bool = False) -> route_pb2.RouteConfiguration:
    routes: list[Mapping[str, object]] = [
        {"match": {"prefix": "/"}, "direct_response": {"status": status}}
    ]
    if bad:
        match = {"safe_regex": {"regex": "*["}}
        routes.insert(0, {"match": match, "direct_response": {"status": status}})
    hosts = [{"name": "all", "domains": ["*"], "routes": routes}]
    return json_format.ParseDict(
        {"name": name, "virtual_hosts": hosts}, route_pb2.RouteConfiguration()
    )


def endpoints(name: str, *, bad: bool = False) -> Message:
    address = {"address": "nonsense" if bad else "127.0.0.1", "port_value": 80}
    each = {"endpoint": {"address": {"socket_address": address}}}
    return json_format.ParseDict(
        {"cluster_name": name, "endpoints": [{"lb_endpoints": [each]}]},
        endpoint_pb2.ClusterLoadAssignment(),
    )


async def give_routes(agent: RunningAgent, status: int, *, bad: str = "") -> None:
    await agent.plane.give(
        type_urls.ROUTE, *(route(name, status, bad=name == bad) for name in NAMES)
    )


async def answers(_agent: RunningAgent) -> list[int]:
    ports = range(LISTENER_PORT, LISTENER_PORT + len(NAMES))
    return [(await ask(own_address(), port, "/"))[0] for port in ports]


async def until_answers(agent: RunningAgent, *expected: int) -> None:
    seen: list[int] = []

    async def answered() -> bool:
        seen[:] = await answers(agent)
        return seen == list(expected)

    await until(answered, what=f"answers {expected}", seen=lambda: seen)


async def client_status(agent: RunningAgent) -> str:
    """Ask the agent's xDS socket by CSDS, and return the reasons of what is refused."""
    path = agent.config.relay.socket_path
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(CSDS, None, csds_pb2.ClientStatusResponse.FromString)
        answer = await call(b"")
    entries = [each for config in answer.config for each in config.generic_xds_configs]
    return " ".join(f"{each.name}={each.error_state.details}" for each in entries)


async def command() -> str:
    """`mesh-agent status`, as people read it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_agent_cli", "status", "--address", own_address()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return output.decode()


async def metric(agent: RunningAgent, name: str) -> float:
    _, page = await agent.ask("/stats/prometheus")
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else -1.0


async def until_seconds(what: str, holds: Callable[[], object], begin: float) -> float:
    await until(holds, what=what)
    return round(time.monotonic() - begin, 3)


async def start(agent: RunningAgent) -> None:
    """Three listeners, each with routes of its own, and three clusters with endpoints."""
    eds = {"type": "EDS", "eds_cluster_config": {"eds_config": ADS}}
    await agent.plane.give(type_urls.ENDPOINT, *map(endpoints, NAMES))
    await give_routes(agent, 201)
    await agent.plane.give(type_urls.CLUSTER, *(cluster(name, **eds) for name in NAMES))
    listeners = [
        listener(name, port=LISTENER_PORT + number, filter_=rds(name))
        for number, name in enumerate(NAMES)
    ]
    await agent.plane.give(type_urls.LISTENER, *listeners)
    await agent.until_ready_says(200, "")
    await until_answers(agent, 201, 201, 201)


@DIALECTS
async def test_a_refused_route_is_reported_everywhere_and_keeps_no_other_away(
    socket_dir: Path, envoy_binary: Path, record_property: Figure, *, delta: str
) -> None:
    async with running_agent(socket_dir, envoy_binary, ISTIO_DELTA_XDS=delta) as agent:
        await start(agent)
        begin = time.monotonic()
        await give_routes(agent, 202, bad="middle")

        async def in_status() -> bool:
            types = (await agent.status())["xds"]["types"][type_urls.ROUTE]
            refused = [(each["name"], each["reason"]) for each in types.get("refused", ())]
            return [name for name, _ in refused] == ["middle"] and REASON in refused[0][1]

        async def in_metrics() -> bool:
            return await metric(agent, "mesh_agent_xds_resources_refused") == 1

        async def in_readiness() -> bool:
            status, said = await agent.ask("/healthz/ready")
            return status == 200 and REASON in said and "middle" in said

        async def in_csds() -> bool:
            return f"middle={REASON}" in await client_status(agent)

        places = {
            "status": in_status,
            "metrics": in_metrics,
            "readiness": in_readiness,
            "CSDS": in_csds,
        }
        waits = [until_seconds(name, holds, begin) for name, holds in places.items()]
        for name, seconds in zip(places, await asyncio.gather(*waits), strict=True):
            record_property(f"{name} tells it after s", seconds)
        await until_answers(agent, 202, 201, 202)
        said = await command()
        assert REASON in said
        assert "QUARANTINED" in said
        assert "middle" in said

        await give_routes(agent, 203)
        await until_answers(agent, 203, 203, 203)

        async def over() -> bool:
            xds = (await agent.status())["xds"]
            return not xds["quarantined"] and "refused" not in xds["types"][type_urls.ROUTE]

        await until(over, what="the end of the quarantine")
        assert REASON not in (await agent.ask("/healthz/ready"))[1]


@DIALECTS
async def test_refused_endpoints_are_reported_and_keep_no_others_away(
    socket_dir: Path, envoy_binary: Path, *, delta: str
) -> None:
    async with running_agent(socket_dir, envoy_binary, ISTIO_DELTA_XDS=delta) as agent:
        await start(agent)
        await agent.plane.give(
            type_urls.ENDPOINT, *(endpoints(name, bad=name == "middle") for name in NAMES)
        )
        await agent.until_ready_says(200, "malformed IP address: nonsense")

        async def are_reported() -> bool:
            return "middle=malformed IP address" in await client_status(agent)

        await until(are_reported, what="the endpoints in CSDS")
        types = (await agent.status())["xds"]["types"][type_urls.ENDPOINT]
        assert [each["name"] for each in types["refused"]] == ["middle"]
        assert await answers(agent) == [201, 201, 201]


@DIALECTS
async def test_a_fresh_envoy_is_not_given_a_refused_route(
    socket_dir: Path, envoy_binary: Path, caplog: pytest.LogCaptureFixture, *, delta: str
) -> None:
    caplog.set_level(logging.DEBUG, "xds_proxy")
    async with running_agent(socket_dir, envoy_binary, ISTIO_DELTA_XDS=delta) as agent:
        await start(agent)
        await give_routes(agent, 202, bad="middle")
        await until_answers(agent, 202, 201, 202)
        refusals = refused_by_envoy(caplog)
        assert refusals > 0
        old = await pid(agent)
        os.kill(old, signal.SIGKILL)

        async def replaced() -> bool:
            return await pid(agent) != old and (await agent.ask("/healthz/ready"))[0] == 200

        await until(replaced, what="another Envoy")
        await until_answers(agent, 202, 201, 202)
        assert await metric(agent, "mesh_agent_xds_last_good_given_total") >= 1
        assert refused_by_envoy(caplog) == refusals, "the fresh Envoy refused something"
        nacks = [
            each.error_detail.message
            for each in agent.plane.requests
            if each.type_url == type_urls.ROUTE and each.HasField("error_detail")
        ]
        assert REASON in nacks[-1]


def refused_by_envoy(caplog: pytest.LogCaptureFixture) -> int:
    return sum(
        record.getMessage() == "Envoy refused a configuration and keeps the last good one"
        for record in caplog.records
    )


async def pid(agent: RunningAgent) -> Any:
    return (await agent.status())["envoy"]["pid"]
