"""The status port of a real agent: metrics of three processes, and the application's probes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mesh_e2e import (
    ROOT,
    TOKEN,
    Target,
    environment_of,
    own_address,
    put,
    running_agent,
    send,
    servers,
)
from mesh_testkit import until

ADDRESS = own_address(40)
PAGE = b"# TYPE app_requests counter\napp_requests_total 7\n# EOF\n"
LIVE = "/app-health/web/livez"


@asynccontextmanager
async def application(*, hang: bool = False) -> AsyncIterator[int]:
    """An application on every address, with metrics and a health check."""
    released = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if hang:
            await released.wait()
        elif request.startswith(b"GET /metrics "):
            kind = b"application/openmetrics-text; version=1.0.0"
            length = b"%d" % len(PAGE)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ncontent-length: " + length
            writer.write(head + b"\r\n\r\n" + PAGE)
        else:
            writer.write(b"HTTP/1.1 418 Teapot\r\ncontent-length: 5\r\n\r\nshort")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "0.0.0.0", 0)  # noqa: S104 - the workload's own
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        released.set()
        server.close()
        await server.wait_closed()


async def get(path: str, **headers: str) -> tuple[int, bytes]:
    return await send(Target(host=ADDRESS, port=15020, url=path, headers=headers))


async def probed() -> bool:
    """Whether the status port is there, and has the application's answer."""
    try:
        return await get(LIVE) == (418, b"short")
    except OSError:
        return False


async def configured() -> bool:
    """Whether Envoy has started, and shows its configuration."""
    code, dump = await get("/debug/config_dump")
    return code == 200 and bool(json.loads(dump)["configs"])


async def test_a_scrape_has_three_processes_and_a_probe_reaches_the_application(
    tmp_path: Path,
) -> None:
    workload = tmp_path / "web"
    async with servers(tmp_path) as around, application() as port, application(hang=True) as deaf:
        put(workload, TOKEN, "token")
        put(workload, ROOT, around.root_pem)
        targets = [f"{port}:/metrics", f"{deaf}:/metrics"]
        probers = {LIVE: {"httpGet": {"port": port, "path": "/live"}}}
        environment = environment_of(
            around,
            ADDRESS,
            ISTIO_PROMETHEUS_ANNOTATIONS=json.dumps({"targets": targets}),
            ISTIO_KUBE_APP_PROBERS=json.dumps(probers),
        )
        async with running_agent(workload, environment) as agent:
            await until(probed, what="the application's own answer to a probe")
            await agent.status()
            await until(configured, what="Envoy's configuration")
            patience = {"X-Prometheus-Scrape-Timeout-Seconds": "2"}
            code, body = await get("/stats/prometheus", **patience)
            assert code == 200
            assert b"\napp_requests_total 7\n" in body
            assert body.index(b"mesh_agent_ready") < body.index(b"envoy_") < body.index(b"app_")
            _, again = await get("/metrics", **patience)
            assert b'istio_agent_scrape_failures_total{type="application"} 1\n' in again
            assert b'istio_agent_scrape_failures_total{type="envoy"} 0\n' in again
            assert b"\nenvoy_server_live" in again
