"""Istio's metrics with real Envoys: each tag at both sides, and what Telemetry changes of them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh_discovery.serve._status import status_problems
from mesh_testkit.envoys import find_envoy
from planes import eventually
from scenarios import MeshEnvoy, Scene, opened_scene

METRICS = pytest.mark.envoy_since("1.37")
"""Older Envoys have no access logger that makes statistics."""
SERVICE = """\
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {{name: shop-v2, namespace: b}}
spec: {{address: {address}, serviceAccount: s, labels: {{app: shop, version: v2}}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP, targetPort: 8080}}
  - {{number: 90, name: tcp, protocol: TCP, targetPort: 9000}}
  workloadSelector: {{labels: {{app: shop}}}}
"""
CALLER = {
    "workload": "client-v1",
    "workload_namespace": "a",
    "cluster": "east",
    "canonical_service": "client",
    "canonical_revision": "v1",
    "app": "client",
    "version": "v1",
    "principal": "spiffe://cluster.local/ns/a/sa/c",
}
CALLED = {
    "workload": "shop-v2",
    "workload_namespace": "b",
    "canonical_service": "shop",
    "canonical_revision": "v2",
    "app": "shop",
    "version": "v2",
    "principal": "spiffe://cluster.local/ns/b/sa/s",
}
BY_CERTIFICATE = {
    "workload": "c",
    "workload_namespace": "a",
    "cluster": "unknown",
    "canonical_service": "c",
    "canonical_revision": "unknown",
    "app": "c",
    "version": "unknown",
    "principal": "spiffe://cluster.local/ns/a/sa/c",
}
STRANGER = dict.fromkeys(BY_CERTIFICATE, "unknown")
OF_SERVICE = {
    "destination_service": "s.b.svc.cluster.local",
    "destination_service_name": "s",
    "destination_service_namespace": "b",
}
OF_REQUEST = {
    "request_protocol": "http",
    "response_code": "200",
    "response_flags": "-",
    "grpc_response_status": "",
}
OF_CONNECTION = {"request_protocol": "tcp", "response_flags": "-"}
REQUESTS = (
    "istio_requests_total",
    "istio_request_duration_milliseconds_count",
    "istio_request_bytes_count",
    "istio_response_bytes_count",
)
CONNECTIONS = ("istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total")
BYTES = ("istio_tcp_sent_bytes_total", "istio_tcp_received_bytes_total")


class Series(NamedTuple):
    """A series of a page."""

    name: str
    tags: Mapping[str, str]
    value: float


async def series(envoy: MeshEnvoy, names: str = r"istio_\w+") -> list[Series]:
    """Return the series of Istio's metrics that an Envoy has, by Istio's names."""
    page = str(await envoy.envoy.get("/stats/prometheus"))
    found = re.findall(rf"^envoy_({names})\{{([^\n]*)\}} (\S+)$", page, re.MULTILINE)
    return [
        Series(name, dict(re.findall(r'(\w+)="([^"]*)"', tags)), float(value))
        for name, tags, value in found
        if "_bucket" not in name
    ]


async def counted(envoy: MeshEnvoy, name: str, **tags: str) -> Series:
    """Wait for the series of a name with some tags that has counted something, and return it."""

    async def look() -> Series | None:
        for each in await series(envoy, name):
            if tags.items() <= each.tags.items() and each.value:
                return each
        return None

    found: Series = await eventually(look, what=f"{name} with {tags} at {envoy.name}")
    return found


def tags_of(side: str, workload: Mapping[str, str]) -> dict[str, str]:
    return {f"{side}_{name}": value for name, value in workload.items()}


class Pair(NamedTuple):
    """A client C in namespace a, and a server S in namespace b."""

    client: MeshEnvoy
    server: MeshEnvoy


async def pair(scene: Scene) -> Pair:
    address = scene.network.address()
    await scene.apply(service=SERVICE.format(address=address))
    server = await scene.sidecar(
        "s",
        namespace="b",
        service_account="s",
        labels={"app": "shop", "version": "v2"},
        metadata={"WORKLOAD_NAME": "shop-v2", "CLUSTER_ID": "west"},
        address=address,
    )
    await scene.echo("application", address=server.app_address)
    await scene.tcp_echo("application", address=server.app_address)
    client = await scene.sidecar(
        "c",
        namespace="a",
        labels={"app": "client", "version": "v1"},
        metadata={"WORKLOAD_NAME": "client-v1", "CLUSTER_ID": "east"},
    )
    return Pair(client, server)


@METRICS
async def test_both_sides_count_a_request_with_each_tag(scene: Scene) -> None:
    found = await pair(scene)
    assert (await found.client.get("http://s.b/")).status == 200

    for name in REQUESTS:
        at_client = await counted(found.client, name)
        assert at_client.tags == {
            "reporter": "source",
            "connection_security_policy": "unknown",
            **tags_of("source", CALLER),
            **tags_of("destination", {**CALLED, "cluster": "unknown"}),
            **OF_SERVICE,
            **OF_REQUEST,
        }
        at_server = await counted(found.server, name)
        assert at_server.tags == {
            "reporter": "destination",
            "connection_security_policy": "mutual_tls",
            **tags_of("source", BY_CERTIFICATE),
            **tags_of("destination", {**CALLED, "cluster": "west"}),
            **OF_SERVICE,
            **OF_REQUEST,
        }
        assert at_client.value == at_server.value == 1


@METRICS
async def test_both_sides_count_a_connection_with_each_tag(scene: Scene) -> None:
    found = await pair(scene)
    said = await found.client.send(90, b"hello\n")
    assert said

    for name in (*CONNECTIONS, *BYTES):
        at_client = await counted(found.client, name)
        assert at_client.tags == {
            "reporter": "source",
            "connection_security_policy": "unknown",
            **tags_of("source", CALLER),
            **tags_of("destination", {**CALLED, "cluster": "unknown"}),
            **OF_SERVICE,
            **OF_CONNECTION,
        }
        at_server = await counted(found.server, name)
        assert at_server.tags == {
            "reporter": "destination",
            "connection_security_policy": "mutual_tls",
            **tags_of("source", BY_CERTIFICATE),
            **tags_of("destination", {**CALLED, "cluster": "west"}),
            **OF_SERVICE,
            **OF_CONNECTION,
        }
        if name in CONNECTIONS:
            assert at_client.value == at_server.value == 1
    assert (await counted(found.server, BYTES[0])).value == len(said)
    assert (await counted(found.server, BYTES[1])).value == len(b"hello\n")


TELEMETRY = """\
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: metrics, namespace: istio-system}
spec:
  metrics:
  - overrides:
    - match: {metric: REQUEST_SIZE}
      disabled: true
    - match: {mode: SERVER}
      tagOverrides:
        source_cluster: {operation: REMOVE}
        request_method: {value: request.method}
        own_app: {value: "node.metadata['LABELS']['app']"}
        text: {value: "'100%'"}
"""


@METRICS
async def test_telemetry_switches_metrics_off_and_changes_tags(scene: Scene) -> None:
    found = await pair(scene)
    await scene.apply(telemetry=TELEMETRY)

    async def both_draining() -> int:
        pattern = "listener_manager.total_.*_draining"
        counts = [await each.stats(pattern) for each in found]
        return sum(sum(each.values()) for each in counts)

    await eventually(both_draining, wanted=0, what="the end of listeners as they were")
    assert (await found.client.get("http://s.b/")).status == 200

    at_client = await counted(found.client, REQUESTS[0])
    assert at_client.tags["source_cluster"] == "east"
    assert "request_method" not in at_client.tags
    at_server = await counted(found.server, REQUESTS[0])
    changed = {"request_method": "GET", "own_app": "shop", "text": "100%"}
    assert changed.items() <= at_server.tags.items()
    assert "source_cluster" not in at_server.tags
    for envoy in found:
        assert {each.name for each in await series(envoy)} == {
            name.removesuffix("_count") + end
            for name in REQUESTS
            if name != "istio_request_bytes_count"
            for end in (("_count", "_sum") if name.endswith("_count") else ("",))
        }

    await scene.apply(
        mesh_config="""\
        apiVersion: mesh.istio.io/v1alpha1
        kind: MeshConfig
        spec: {defaultProviders: {metrics: []}, defaultConfig: {drainDuration: 1s}}
        """
    )
    await eventually(both_draining, wanted=0, what="the end of listeners as they were")
    assert (await found.client.get("http://s.b/")).status == 200
    for envoy in found:
        assert await series(envoy) == []
    assert scene.refused() == []


CLAIMS = {
    "x-envoy-peer-metadata": "anything",
    "x-envoy-peer-metadata-id": "sidecar~10.0.0.1~c.a~a.svc.cluster.local",
    "baggage": "k8s.deployment.name=mine",
    "x-forwarded-client-cert": "By=a;URI=spiffe://cluster.local/ns/a/sa/c",
}


@METRICS
async def test_what_a_caller_says_of_itself_makes_no_series(scene: Scene) -> None:
    found = await pair(scene)
    stranger = found.server.address
    for number in range(20):
        claims = {name: f"{value}{number}" for name, value in CLAIMS.items()}
        # By way of the caller's sidecar, and without one, in plaintext.
        answer = await found.client.get("http://s.b/", headers=claims)
        assert answer.status == 200
        claims["host"] = f"host-{number}.example"
        plain = await found.server.send(8080, _request(claims), address=stranger)
        assert plain.startswith(b"HTTP/1.1 200"), plain

    async def all_counted() -> bool:
        counts = [each.value for each in await series(found.server, REQUESTS[0])]
        return sum(counts) == 40

    await eventually(all_counted, what="all requests being counted")
    of_callers, of_strangers = sorted(
        await series(found.server, REQUESTS[0]),
        key=lambda each: each.tags["connection_security_policy"],
    )
    assert tags_of("source", BY_CERTIFICATE).items() <= of_callers.tags.items()
    assert tags_of("source", STRANGER).items() <= of_strangers.tags.items()
    assert of_strangers.tags["connection_security_policy"] == "none"
    assert of_callers.value == of_strangers.value == 20
    assert len(await series(found.client, REQUESTS[0])) == 1


def _request(headers: Mapping[str, str]) -> bytes:
    lines = ["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode()


@METRICS
async def test_calls_of_grpc_bear_their_status(scene: Scene) -> None:
    found = await pair(scene)
    answer = await found.client.get(
        "http://s.b/", method="POST", headers={"content-type": "application/grpc"}
    )
    assert answer.status == 200
    for envoy in found:
        each = await counted(envoy, REQUESTS[0])
        assert each.tags["request_protocol"] == "grpc"


async def test_older_envoys_serve_without_metrics_and_the_status_says_so_once(
    tmp_path: Path, socket_dir: Path
) -> None:
    old = find_envoy("1.36")
    async with opened_scene(tmp_path=tmp_path, socket_dir=socket_dir, envoy_binary=old) as scene:
        found = await pair(scene)
        assert (await found.client.get("http://s.b/")).status == 200
        for envoy in found:
            assert await series(envoy) == []

        (said,) = status_problems(scene.plane.pages.status())
        assert said.startswith("without Istio's metrics: ")
        assert said.endswith(" (and 1 others): Envoy makes them from 1.37 on")

        off = "spec: {defaultProviders: {metrics: []}}"
        await scene.apply(
            mesh_config=f"apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n{off}\n"
        )
        assert not list(status_problems(scene.plane.pages.status()))
