"""Requests through two sidecars, with Istio's metrics and without: what counting a request costs.

Run as a script. A client's and a server's Envoy with mutual TLS between them, and a third Envoy as
the application; mesh config switches the metrics in rounds that alternate in one run.
What is measured is the CPU of the two sidecars a request, and the time of a request on as many
connections as there are, which other work on the machine stretches. The series of both are told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "envoy-config" / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from mesh_testkit.envoys import find_envoy
from mesh_testkit.measurements import FLOOR, Row, tell
from planes import eventually, start
from scenarios import MeshEnvoy, Scene, opened_scene

CONNECTIONS = 16
SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}]
  endpoints: [{{address: {address}, serviceAccount: s, labels: {{app: s, version: v1}}}}]
"""
MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  defaultProviders: {{metrics: [{providers}]}}
  defaultConfig: {{drainDuration: 1s}}
"""
_TYPES = "type.googleapis.com/envoy.extensions.filters"


class Round(NamedTuple):
    """A round: microseconds of CPU of both Envoys, and of time, a request."""

    cpu_us: float
    time_us: float


def application(address: str) -> dict[str, object]:
    """Return the bootstrap of an Envoy that answers each request."""
    route = {"match": {"prefix": "/"}, "direct_response": {"status": 200}}
    manager = {
        "@type": f"{_TYPES}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "application",
        "route_config": {"virtual_hosts": [{"name": "a", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{_TYPES}.http.router.v3.Router"}}
        ],
    }
    listener = {
        "address": {"socket_address": {"address": address, "port_value": 8080}},
        "filter_chains": [{"filters": [{"name": "manager", "typed_config": manager}]}],
    }
    return {"static_resources": {"listeners": [listener]}}


async def request(envoy: MeshEnvoy, count: int) -> None:
    """Send requests one after another on a connection that is kept."""
    reader, writer = await asyncio.open_connection(envoy.outbound_address, 80)
    try:
        for _ in range(count):
            writer.write(b"GET / HTTP/1.1\r\nhost: s.b\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
    finally:
        writer.close()


def cpu_s(envoys: list[MeshEnvoy]) -> float:
    """Return the CPU that processes have taken so far."""
    ticks = 0
    for envoy in envoys:
        text = Path(f"/proc/{envoy.process.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def measure(envoys: list[MeshEnvoy], requests: int) -> Round:
    """Send requests at once on some connections."""
    each = requests // CONNECTIONS
    cpu, began = cpu_s(envoys), time.monotonic()
    await asyncio.gather(*(request(envoys[0], each) for _ in range(CONNECTIONS)))
    sent = each * CONNECTIONS
    took = time.monotonic() - began
    return Round((cpu_s(envoys) - cpu) / sent * 1e6, took / sent * 1e6)


async def switch(scene: Scene, envoys: list[MeshEnvoy], providers: str) -> None:
    """Switch the metrics, and wait until no connection is served as before."""
    await scene.apply(mesh_config=MESH.format(providers=providers))
    for envoy in envoys:

        async def draining(envoy: MeshEnvoy = envoy) -> int:
            found = await envoy.stats("listener_manager.total_.*_draining")
            return sum(found.values())

        await eventually(draining, wanted=0, what="the end of listeners as they were")
    await measure(envoys, 10 * CONNECTIONS)


async def series(envoy: MeshEnvoy) -> int:
    """Return how many lines of Istio's metrics a page has."""
    page = str(await envoy.envoy.get("/stats/prometheus"))
    return sum(line.startswith("envoy_istio_") for line in page.splitlines())


async def run(scene: Scene, *, rounds: int, requests: int) -> None:
    address = scene.network.address()
    await scene.apply(
        service=SERVICE.format(address=address), mesh_config=MESH.format(providers="")
    )
    labels = {"app": "s", "version": "v1"}
    server = await scene.sidecar(
        "s", namespace="b", service_account="s", labels=labels, address=address
    )
    client = await scene.sidecar("c", namespace="a", labels={"app": "c"})
    file = scene.tmp_path / "application.json"
    file.write_text(json.dumps(application(server.app_address)))
    options = ("--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
    behind = await start(
        str(scene.envoy_binary), "--config-path", str(file), *options, cwd=scene.tmp_path
    )
    try:
        envoys = [client, server]
        with_metrics, without = [], []

        async def answers() -> bool:
            return (await client.get("http://s.b/")).status == 200

        await eventually(answers, what="the application answering")
        for _ in range(rounds):
            await switch(scene, envoys, "")
            without.append(await measure(envoys, requests))
            await switch(scene, envoys, "prometheus")
            with_metrics.append(await measure(envoys, requests))
        lines = [await series(each) for each in envoys]
    finally:
        await behind.end("the application's Envoy")
    for what, unit, index in (
        ("request with Istio's metrics: CPU of both", "us", 0),
        ("request with Istio's metrics: time", "us", 1),
    ):
        before = [each[index] for each in without]
        ours = [each[index] for each in with_metrics]
        tell([Row(what, unit, ours, {"without": before, FLOOR: before})])
    print(
        f"series of one kind of request: {lines[0]} lines at the client, {lines[1]} at the server"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as sockets:
        scene = opened_scene(
            tmp_path=Path(directory), socket_dir=Path(sockets), envoy_binary=find_envoy()
        )
        async with scene as opened:
            await run(opened, rounds=options.rounds, requests=options.requests)


if __name__ == "__main__":
    asyncio.run(main())
