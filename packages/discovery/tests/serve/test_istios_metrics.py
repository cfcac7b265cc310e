"""The numbers of a mesh in Istio's metrics are those of what is served now."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families as parsed

from documents import entry
from mesh_protos import type_urls
from planes import Plane
from xds_server.testing import SotwClient, over_grpc

Start = Callable[..., Awaitable[Plane]]
PORT = "ports: [{number: 80, name: http, protocol: HTTP}]"
MESH = f"""\
{entry("web", f"hosts: [web.test], resolution: STATIC, {PORT}, endpoints: [{{address: 10.0.0.1}}]")}
---
{entry("none", f"hosts: [none.test], resolution: STATIC, {PORT}")}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: one, namespace: default}}
spec: {{hosts: [web.test], http: [{{route: [{{destination: {{host: web.test}}}}]}}]}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: two, namespace: default}}
spec: {{hosts: [web.test], http: [{{route: [{{destination: {{host: web.test}}}}]}}]}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: one, namespace: default}}
spec: {{host: web.test, subsets: [{{name: v1, labels: {{version: v1}}}}]}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: two, namespace: default}}
spec: {{host: web.test, subsets: [{{name: v1, labels: {{version: v1}}}}]}}
"""
NOT_READY = """\
apiVersion: v1
kind: Service
metadata: {name: late, namespace: default}
spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: late-1, namespace: default, labels: {kubernetes.io/service-name: late}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.7], conditions: {ready: false}}]
ports: [{name: http, port: 8080}]
"""


async def metrics(plane: Plane) -> dict[str, float]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{plane.monitoring}/metrics") as response,
    ):
        page = await response.text()
    return {
        sample.name: sample.value
        for family in parsed(page)
        for sample in family.samples
        if not sample.labels
    }


async def test_istios_dashboards_find_the_numbers_of_the_mesh(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    (config_dir / "mesh.yaml").write_text(MESH)
    plane = await start_plane(config_dir)
    first = await metrics(plane)
    assert {name: first[name] for name in EXPECTED} == EXPECTED
    assert first["istiod_uptime_seconds"] > 0
    for name in ("cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "open_fds"):
        assert first[f"process_{name}"] > 0, name
    for kind in ("root_cert", "cert_chain"):
        left = first[f"citadel_server_{kind}_expiry_seconds"]
        assert 0 < left < first[f"citadel_server_{kind}_expiry_timestamp"]

    (config_dir / "late.yaml").write_text(NOT_READY)
    (config_dir / "wrong.yaml").write_text("kind: Servce\n")

    async def changed() -> dict[str, float]:
        found = await metrics(plane)
        return {name: found[name] for name in AFTER}

    await eventually(changed, wanted=AFTER, what="the numbers of the mesh as it is now")


EXPECTED = {
    "pilot_virt_services": 2,
    "pilot_vservice_dup_domain": 1,
    "pilot_destrule_subsets": 1,
    "pilot_eds_no_instances": 1,
    "pilot_dns_cluster_without_endpoints": 0,
    "pilot_endpoint_not_ready": 0,
    "pilot_no_ip": 0,
    "pilot_total_rejected_configs": 0,
    "galley_validation_passed": 6,
    "galley_validation_failed": 0,
    "pilot_conflict_outbound_listener_tcp_over_current_tcp": 0,
}
AFTER = {
    "pilot_endpoint_not_ready": 1,
    "pilot_total_rejected_configs": 1,
    "galley_validation_passed": 8,
    "galley_validation_failed": 1,
}


async def test_a_sidecar_that_is_no_endpoint_is_counted(
    config_dir: Path, start_plane: Start
) -> None:
    (config_dir / "mesh.yaml").write_text(MESH)
    plane = await start_plane(config_dir)
    for address, expected in (("10.0.0.1", 0), ("10.0.0.2", 1)):
        async with over_grpc(plane.grpc) as wire:
            client = SotwClient(
                wire,
                node_id=f"sidecar~{address}~web.default~default.svc.cluster.local",
                metadata={"INTERCEPTION_MODE": "NONE", "NAMESPACE": "default"},
            )
            await client.subscribe(type_urls.CLUSTER)
            await client.next()
            assert (await metrics(plane))["pilot_no_ip"] == expected
