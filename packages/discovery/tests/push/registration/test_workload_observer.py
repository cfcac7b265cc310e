"""A proxy that registers over xDS is an endpoint that others are sent, with its health."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from prometheus_client import CollectorRegistry

from mesh_discovery import ConfigLoader
from mesh_discovery._metrics import Metrics
from mesh_discovery.plan._proxy import Proxy, parse_proxy
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._generators import generators
from mesh_discovery.push.registration._registered_workloads import RegisteredWorkloads
from mesh_discovery.push.registration._workload_observer import WorkloadObserver
from mesh_lifecycle.testing import ManualClock
from mesh_protos import type_urls
from xds_server import Admission, Node, Peer, ServerConfig, XdsServer
from xds_server.testing import SotwClient, StreamEnded, in_memory

CLUSTER = "outbound|80||web.test"
CONFIG = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.test]
  resolution: STATIC
  location: MESH_INTERNAL
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  workloadSelector: {labels: {app: web}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms, namespace: shop}
spec:
  template: {labels: {app: web}, serviceAccount: web}
"""


@dataclass
class Mesh:
    """An xDS server in this process, and who its callers are."""

    server: XdsServer[Proxy]
    clock: ManualClock
    identities: tuple[str, ...] = ()

    @asynccontextmanager
    async def proxy(self, address: str, **metadata: Any) -> AsyncIterator[SotwClient]:
        async with in_memory(self.server) as wire:
            node = f"sidecar~{address}~vm.shop~shop.svc.cluster.local"
            client = SotwClient(wire, node_id=node, metadata=metadata)
            await client.subscribe(type_urls.CLUSTER)
            await client.next()
            yield client


@pytest.fixture
async def mesh(config_dir: Path) -> AsyncIterator[Mesh]:
    (config_dir / "all.yaml").write_text(CONFIG)
    workloads = RegisteredWorkloads(grace_s=10)
    metrics = Metrics(CollectorRegistry(), version="0")
    loaded = ConfigLoader(config_dir).load()
    assert not loaded.problems
    store = ConfigStore(loaded, metrics=metrics, trust_domain="cluster.local", workloads=workloads)
    clock = ManualClock()
    observer = WorkloadObserver(store, workloads, clock=clock)

    async def admit(node: Node, _peer: Peer) -> Admission[Proxy]:
        return Admission(context=parse_proxy(node), identities=made.identities)

    server = XdsServer(
        generators(store.served, bundle_pem=bytes),
        admit=admit,
        observer=observer,
        build=store.served.build,
        config=ServerConfig(
            debounce_quiet_s=0.0, reported_types=frozenset({type_urls.HEALTH_INFORMATION})
        ),
    )
    made = Mesh(server, clock)
    server.mark_ready()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.running())
        await stack.enter_async_context(observer.running(server.notify))
        yield made


async def endpoints(client: SotwClient, wanted: Callable[[Mapping[str, int]], bool]) -> None:
    """Wait for endpoints, as addresses and their health, that are wanted."""
    async with asyncio.timeout(30):
        while True:
            reply = await client.next()
            if reply.type_url != type_urls.ENDPOINT:
                continue
            assignment = endpoint_pb2.ClusterLoadAssignment.FromString(reply.resources[CLUSTER])
            found = {
                each.endpoint.address.socket_address.address: each.health_status
                for locality in assignment.endpoints
                for each in locality.lb_endpoints
            }
            if wanted(found):
                return


HEALTHY, UNHEALTHY = 0, 2


async def test_a_workload_is_there_as_long_as_its_proxy_is_and_as_healthy_as_it_says(
    mesh: Mesh,
) -> None:
    async with mesh.proxy("10.1.0.1") as client:
        await client.subscribe(type_urls.ENDPOINT, CLUSTER)
        await endpoints(client, lambda found: found == {})
        async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="vms") as workload:
            await endpoints(client, lambda found: found == {"10.5.0.1": HEALTHY})
            report = discovery_pb2.DiscoveryRequest(type_url=type_urls.HEALTH_INFORMATION)
            report.error_detail.code = 13
            report.error_detail.message = "connection refused"
            await workload.send(report)
            await endpoints(client, lambda found: found == {"10.5.0.1": UNHEALTHY})
            await workload.send(
                discovery_pb2.DiscoveryRequest(type_url=type_urls.HEALTH_INFORMATION)
            )
            await endpoints(client, lambda found: found == {"10.5.0.1": HEALTHY})
        await mesh.clock.advance(10)
        await endpoints(client, lambda found: found == {})


async def test_a_proxy_of_no_group_is_refused(mesh: Mesh) -> None:
    with pytest.raises(StreamEnded, match="there is no WorkloadGroup shop/others") as ended:
        async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="others"):
            pass

    assert ended.value.code is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    "identity", ["spiffe://cluster.local/ns/other/sa/web", "spiffe://cluster.local/ns/shop/sa/db"]
)
async def test_a_proxy_of_another_identity_than_its_group_is_refused(
    identity: str, mesh: Mesh
) -> None:
    mesh.identities = (identity,)

    with pytest.raises(StreamEnded, match="is for the service account web") as ended:
        async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="vms"):
            pass

    assert ended.value.code is grpc.StatusCode.PERMISSION_DENIED


async def test_a_proxy_of_the_identity_of_its_group_is_registered(mesh: Mesh) -> None:
    mesh.identities = ("spiffe://cluster.local/ns/shop/sa/web",)

    async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="vms") as client:
        await client.subscribe(type_urls.ENDPOINT, CLUSTER)
        await endpoints(client, lambda found: found == {"10.5.0.1": HEALTHY})
