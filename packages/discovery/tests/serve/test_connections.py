"""Callers that only hold connections, on every port, beside callers that want an answer."""

import asyncio
import contextlib
import json
import resource
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from mesh_discovery._config import Address
from mesh_discovery.serve._http import serving_http
from mesh_listening import HTTP_LIMITS, ConnectionLimits, Reason
from mesh_listening.prometheus import PortMetrics
from mesh_testkit import PATIENCE_S, all_closed, idle_connections, until
from planes import Plane

Start = Callable[..., Awaitable[Any]]
IDLE = 1000
REFUSED_TOTAL = "mesh_listener_connections_refused_total"
SILENT, TOO_MANY = "said nothing", "too many of one peer"
UNHURRIED = HTTP_LIMITS._replace(
    first_byte_s=3600.0, handshake_s=3600.0, idle_s=3600.0, stalled_s=3600.0
)
"""Limits that end no connection for being slow; a test shortens the one it is about."""


async def get(url: str, *, source: str) -> int:
    connector = aiohttp.TCPConnector(local_addr=(source, 0))
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.get(url) as response:
            await response.read()
            return response.status


async def is_served(address: str) -> bool:
    """Whether another caller is served; one that a limit of the test's has ended is not."""
    try:
        return await get(f"http://{address}/", source="127.0.0.2") == 200
    except (aiohttp.ClientError, ConnectionError):
        return False


def lines_of(plane: Plane, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in plane.process.output if line.startswith("{")]
    return [line for line in lines if line["msg"] == message]


def refused(plane: Plane) -> Counter[tuple[str, str]]:
    """How many the log tells of, by listener and reason, in however many times of refusing."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines_of(plane, "no longer refusing connections"):
        counts[line["listener"], line["reason"]] += line["refused"]
    return counts


@pytest.mark.slow
async def test_a_thousand_idle_connections_on_each_port_keep_no_caller_out_and_are_counted(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    ports = (plane.http, plane.monitoring, plane.grpc, plane.secure_grpc)
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(idle_connections(port, IDLE))
        assert await get(f"http://{plane.http}/ready", source="127.0.0.2") == 200
        assert await get(f"http://{plane.monitoring}/version", source="127.0.0.2") == 200
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.ssl_target_name_override", "localhost"),
        ]
        root = (plane.ca_dir / "root-cert.pem").read_bytes()
        credentials = grpc.ssl_channel_credentials(root)
        for channel in (
            grpc.aio.insecure_channel(plane.grpc, options),
            grpc.aio.secure_channel(plane.secure_grpc, credentials, options),
        ):
            async with channel:
                await asyncio.wait_for(channel.channel_ready(), 60)

        async def all_of_them() -> Counter[tuple[str, str]] | None:
            found = refused(plane)
            whole = all(
                sum(found[port, reason] for reason in (SILENT, TOO_MANY)) >= IDLE for port in ports
            )
            return found if whole else None

        ended: Counter[tuple[str, str]] = await eventually(all_of_them, what="the end of all")
    assert all(ended[port, TOO_MANY] for port in (plane.http, plane.monitoring))
    assert not any(ended[port, TOO_MANY] for port in (plane.grpc, plane.secure_grpc))
    assert all(ended[port, SILENT] for port in ports)
    assert len(lines_of(plane, "refusing connections")) < IDLE // 10, "in few words"
    ends = lines_of(plane, "no longer refusing connections")
    assert all(line["peers"].startswith("127.0.0.1 (") for line in ends)
    page = await plane.get("/metrics")
    for port, reason, label in (
        (plane.http, TOO_MANY, "peer_full"),
        (plane.grpc, SILENT, "no_first_byte"),
    ):
        labels = f'{{listener="{port}",reason="{label}"}}'
        count = ended[port, reason]
        assert f"{REFUSED_TOTAL}{labels} {count}.0\n" in page
    for port in ports:
        assert f'mesh_listener_connections_open{{listener="{port}"}}' in page


async def answer(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * 100_000)


@pytest.fixture
def app() -> web.Application:
    app = web.Application()
    app.router.add_get("/", answer)
    return app


HERE = Address(host="127.0.0.1", port=0, flag="--http-addr")


@pytest.mark.parametrize(
    ("said", "limits", "why"),
    [
        (b"", UNHURRIED._replace(first_byte_s=0.3), Reason.NO_FIRST_BYTE),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nX: ",
            UNHURRIED._replace(handshake_s=0.3),
            Reason.NO_HEADERS,
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 200,
            UNHURRIED._replace(stalled_s=0.3),
            Reason.STALLED,
        ),
    ],
)
async def test_who_is_slow_is_ended_and_others_are_served(
    app: web.Application,
    caplog: pytest.LogCaptureFixture,
    *,
    said: bytes,
    limits: ConnectionLimits,
    why: Reason,
) -> None:
    registry, ports = CollectorRegistry(auto_describe=True), PortMetrics()
    registry.register(ports)
    async with serving_http(app, HERE, limits=limits, ports=ports) as address:

        def ended() -> float:
            labels = {"listener": address, "reason": why.label}
            return registry.get_sample_value(REFUSED_TOTAL, labels) or 0.0

        with idle_connections(address, 100, said=said) as held:
            await until(partial(is_served, address), what="an answer beside them")
            await until(lambda: ended() >= len(held), what="the end of them all", seen=ended)
            await all_closed(held)
            await until(partial(is_served, address), what="an answer after them")
    begins = {vars(r)["reason"] for r in caplog.records if r.message == "refusing connections"}
    assert begins == {why.value}


async def test_a_connection_between_requests_ends_when_its_time_is_over(
    app: web.Application, caplog: pytest.LogCaptureFixture
) -> None:
    limits = UNHURRIED._replace(idle_s=0.2)
    async with serving_http(app, HERE, limits=limits) as address:
        with idle_connections(address, 10, said=b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as held:
            await all_closed(held)
    assert not caplog.records


async def text_of(url: str, *, patience_s: float = PATIENCE_S) -> tuple[int, str]:
    patience = aiohttp.ClientTimeout(total=patience_s)
    async with aiohttp.ClientSession(timeout=patience) as session, session.get(url) as response:
        return response.status, await response.text()


def leave_no_file(pid: int) -> None:
    """Let a process open no more files than it has open."""
    taken = {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}
    lowest_free = next(number for number in range(len(taken) + 1) if number not in taken)
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, hard))


async def test_out_of_file_descriptors_readiness_status_metrics_and_log_say_so_until_it_is_over(
    config_dir: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir)
    ready = f"http://{plane.http}/ready"
    assert await text_of(ready) == (200, "ready\n")
    pid = plane.process.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    async def when_out(url: str) -> tuple[int, str]:
        while True:
            # A file may be free again: a connection that was counted ends, of an earlier request.
            leave_no_file(pid)
            try:
                return await text_of(url, patience_s=2.0)
            except (aiohttp.ClientError, TimeoutError):
                # The limit fell while a file that the port keeps for callers was free, and under
                # this limit there is none again.
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
                await text_of(ready)

    async def is_ready_no_longer() -> bool:
        status, said = await when_out(ready)
        return status == 503 and said.startswith("open files: out of file descriptors for ")

    async def has_status() -> bool:
        _, document = await when_out(f"http://{plane.monitoring}/debug/status")
        return bool(json.loads(document)["open_files"].startswith("out of file descriptors"))

    async def has_metric() -> bool:
        _, metrics = await when_out(f"http://{plane.monitoring}/metrics")
        return "\nmesh_out_of_file_descriptors 1.0\n" in metrics

    await until(is_ready_no_longer, what="readiness that says so")
    await until(has_status, what="a status that says so")
    await until(has_metric, what="a metric that says so")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert await text_of(ready) == (200, "ready\n")

    def begun_and_ended() -> tuple[int, int]:
        begun, ended = "out of file descriptors", "file descriptors are free again"
        return len(lines_of(plane, begun)), len(lines_of(plane, ended))

    def is_over() -> bool:
        begun, ended = begun_and_ended()
        return 0 < begun == ended

    await until(is_over, what="the end of each time without files", seen=begun_and_ended)
