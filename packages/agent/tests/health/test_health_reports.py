"""The application's health: when it is checked, what is reported, and how it reaches the stream."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from mesh_agent import AgentConfig, ConfigError
from mesh_agent.health._health_reports import HealthReports, health_reports, usable_sources
from mesh_lifecycle import Readiness
from mesh_protos.type_urls import HEALTH_INFORMATION
from mesh_testkit import find_free_port, until
from running_agents import RunningAgent, listener, running_agent

Load = Callable[..., AgentConfig]
Reported = list[str | None]

HEALTH_OK = b"\x08\x01"  # grpc.health.v1.HealthCheckResponse of SERVING


class Relay:
    """Keeps what is reported: None for healthy, else the reason."""

    def __init__(self) -> None:
        self.reported: Reported = []

    def inject(self, type_url: str, *, error: str | None = None) -> None:
        assert type_url == HEALTH_INFORMATION
        self.reported.append(error)


class Application:
    """An application for HTTP, which answers with a status that the test sets."""

    def __init__(self) -> None:
        self.status = 200
        self.port = 0
        self.paths: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.paths.append(head.split()[1].decode())
        writer.write(f"HTTP/1.1 {self.status} x\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()


@asynccontextmanager
async def application(host: str = "127.0.0.1") -> AsyncIterator[Application]:
    served = Application()
    server = await asyncio.start_server(served.answer, host, 0)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served


@asynccontextmanager
async def grpc_application() -> AsyncIterator[int]:
    """An application that is SERVING, as gRPC's health protocol has it."""

    async def check(_request: bytes, _context: object) -> bytes:
        return HEALTH_OK

    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def proxy_config(probe: Mapping[str, object]) -> dict[str, str]:
    return {
        "PROXY_CONFIG": json.dumps({"discoveryAddress": "127.0.0.1:1", "readinessProbe": probe})
    }


@asynccontextmanager
async def reporting(
    load: Load,
    probe: Mapping[str, object],
    *,
    readiness: Readiness | None = None,
    address: str = "127.0.0.1",
) -> AsyncIterator[tuple[HealthReports, Reported]]:
    """Check as an agent with this probe does, every second."""
    loaded = load(
        {
            **proxy_config({"periodSeconds": 1, "timeoutSeconds": 30, **probe}),
            "INSTANCE_IP": address,
        }
    )
    relay = Relay()
    async with health_reports(
        loaded.health_check, readiness=readiness or Readiness(), relay=relay
    ) as reports:
        assert reports is not None
        yield reports, relay.reported


async def until_reported(reported: Reported, count: int) -> None:
    await until(lambda: len(reported) >= count, what=f"{count} reports", seen=lambda: reported)


async def test_an_http_probe(load: Load) -> None:
    async with application() as app:
        probe = {"httpGet": {"port": app.port, "path": "/up"}}
        async with reporting(load, probe) as (reports, reported):
            await until_reported(reported, 1)
            assert reported == [None]
            app.status = 503
            await until_reported(reported, 2)
            assert reported[1] is not None
            assert "status 503" in reported[1]
            assert reports.describe()["healthy"] is False
            assert reports.describe()["reason"] == reported[1]
            app.status = 204
            await until_reported(reported, 3)
            assert reported[2] is None
        assert set(app.paths) == {"/up"}


async def test_a_tcp_probe(load: Load) -> None:
    port = find_free_port()
    async with reporting(load, {"tcpSocket": {"port": port}}) as (_, reported):
        await until_reported(reported, 1)
        assert "connection refused" in str(reported[0])
        with socket.create_server(("127.0.0.1", port)):
            await until_reported(reported, 2)
            assert reported[1] is None


async def test_a_grpc_probe(load: Load) -> None:
    async with (
        grpc_application() as port,
        reporting(load, {"grpc": {"port": port}}) as (_, reported),
    ):
        await until_reported(reported, 1)
        assert reported == [None]


async def test_an_exec_probe(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "healthy"
    probe = {"exec": {"command": ["/bin/sh", "-c", f"echo looking; test -e {file}"]}}
    async with reporting(load, probe) as (_, reported):
        await until_reported(reported, 1)
        assert "exit status 1" in str(reported[0])
        assert "looking" in str(reported[0])
        file.touch()
        await until_reported(reported, 2)
        assert reported[1] is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/no/such/program"], "can't be started"),
        (["/bin/sh", "-c", "kill -9 $$"], "ended by signal 9"),
        (["/bin/sleep", "1000"], "1 s"),
    ],
)
async def test_exec_failures_are_reported_and_no_end(
    load: Load, command: list[str], said: str
) -> None:
    probe = {"exec": {"command": command}, "timeoutSeconds": 1}
    async with reporting(load, probe) as (_, reported):
        await until_reported(reported, 1)
        assert said in str(reported[0])


async def test_an_application_on_ipv6(load: Load) -> None:
    async with application("::1") as app:
        probe = {"httpGet": {"port": app.port}}
        async with reporting(load, probe, address="::1") as (reports, reported):
            await until_reported(reported, 1)
            assert reported == [None]
            assert reports.describe()["host"] == "::1"


async def test_thresholds_count_outcomes_in_a_row_and_only_changes_are_reported(
    load: Load,
) -> None:
    async with application() as app:
        probe = {"httpGet": {"port": app.port}, "successThreshold": 2, "failureThreshold": 2}
        async with reporting(load, probe) as (reports, reported):
            await until(lambda: len(app.paths) == 1, what="the first check")
            assert reports.healthy is None
            await until(lambda: len(app.paths) >= 4, what="four checks")
            assert reported == [None], "one report of four outcomes that are alike"
            app.status = 500
            seen = len(app.paths)
            await until_reported(reported, 2)
            assert len(app.paths) >= seen + 2


async def test_the_first_check_waits_for_readiness_and_the_initial_delay(load: Load) -> None:
    readiness = Readiness()
    envoy = readiness.register("envoy")
    async with application() as app:
        probe = {"httpGet": {"port": app.port}, "initialDelaySeconds": 1}
        async with reporting(load, probe, readiness=readiness) as (_, reported):
            await asyncio.sleep(1.5)
            assert (app.paths, reported) == ([], [])
            loop = asyncio.get_running_loop()
            ready_at = loop.time()
            envoy.set()
            await until_reported(reported, 1)
            assert loop.time() - ready_at >= 1
            # A proxy that is not ready later makes the application unhealthy: no request arrives.
            envoy.unset("envoy ended by itself")
            await until_reported(reported, 2)
            assert reported == [None, "envoy: envoy ended by itself"]


def test_without_a_probe_nothing_is_checked(load: Load) -> None:
    assert load().health_check is None


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ({}, None),
        ({"httpGet": {"port": 0}}, "port"),
        ({"httpGet": {"port": 1}, "tcpSocket": {"port": 1}}, "there is 2"),
        ({"periodSeconds": 5}, "there is none"),
        ({"httpGet": {"port": 1}, "periods": 5}, "periods"),
    ],
)
def test_mistakes_in_the_probe_are_reported_with_their_layer(
    load: Load, probe: Mapping[str, object], said: str | None
) -> None:
    if said is None:
        assert load(proxy_config(probe)).health_check is None
        return
    with pytest.raises(ConfigError) as raised:
        load(proxy_config(probe))
    (problem,) = raised.value.problems
    assert problem.startswith("PROXY_CONFIG: readinessProbe")
    assert said in problem


def test_the_application_is_asked_at_the_workload_s_address_or_localhost(load: Load) -> None:
    probe = proxy_config({"httpGet": {"port": 8080}})
    usual, local = load(probe), load({**probe, "REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION": "1"})
    assert usual.health_check is not None
    assert local.health_check is not None
    assert (usual.health_check.host, local.health_check.host) == ("127.0.9.1", "localhost")


def test_only_source_addresses_of_this_machine_are_used() -> None:
    assert "127.0.0.6" in usable_sources()


def health_of(agent: RunningAgent) -> Reported:
    """What the control plane was sent, in order."""
    return [
        request.error_detail.message if request.HasField("error_detail") else None
        for request in agent.plane.requests
        if request.type_url == HEALTH_INFORMATION
    ]


async def test_the_control_plane_is_notified_on_envoy_s_stream_and_again_on_the_next(
    socket_dir: Path, envoy_binary: Path
) -> None:
    async with application() as app:
        probe = {"periodSeconds": 1, "httpGet": {"port": app.port, "host": "127.0.0.1"}}
        async with running_agent(
            socket_dir, envoy_binary, proxy={"readinessProbe": probe}
        ) as agent:
            await agent.plane.give_all(listener("web"))
            await until(lambda: health_of(agent) == [None], what="the first report")
            app.status = 500
            await until(lambda: len(health_of(agent)) == 2, what="the second report")
            assert "status 500" in str(health_of(agent)[1])
            assert (await agent.status())["health_check"]["healthy"] is False
            _, metrics = await agent.ask("/metrics")
            assert "mesh_agent_application_healthy 0" in metrics
            assert (await agent.ask("/healthz/ready"))[0] == 200, "the proxy itself is ready"
            agent.plane.end_streams()
            await until(lambda: len(health_of(agent)) == 3, what="the report on the next stream")
            assert health_of(agent)[2] == health_of(agent)[1]
