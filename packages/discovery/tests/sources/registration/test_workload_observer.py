"""A proxy that registers over xDS is an endpoint that others are sent, with its health."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from prometheus_client import CollectorRegistry

from envoy_config import Proxy
from mesh_discovery import ConfigLoader
from mesh_discovery._metrics import Metrics
from mesh_discovery._registration_limits import RegistrationLimits
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._generators import generators
from mesh_discovery.sources._all_sources import Sources
from mesh_discovery.sources.files._file_source import FileSource
from mesh_discovery.sources.registration._registered_workloads import RegisteredWorkloads
from mesh_discovery.sources.registration._workload_observer import WorkloadObserver
from mesh_lifecycle.testing import ManualClock
from mesh_protos import type_urls
from proxies import proxy_of
from xds_server import Admission, Node, Peer, PushRequest, ServerConfig, XdsServer
from xds_server.testing import SotwClient, StreamEnded, in_memory

LIMITS = RegistrationLimits(of_identity=40)
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
metadata:
  name: vms
  namespace: shop
  annotations: {mesh-discovery/addresses: "10.9.0.0/16, fd09::/16"}
spec:
  template: {labels: {app: web}, serviceAccount: web}
"""


@dataclass
class Mesh:
    """An xDS server in this process, and who its callers are."""

    server: XdsServer[Proxy]
    clock: ManualClock
    store: ConfigStore
    files: FileSource
    sources: Sources
    directory: Path
    identities: tuple[str, ...] = ("spiffe://cluster.local/ns/shop/sa/web",)
    source: str = "10.5.0.1"

    rebuilt: int = 0

    def add(self, document: str) -> None:
        (self.directory / "further.yaml").write_text(document)
        self.files.take(ConfigLoader(self.directory).load())
        self.serve(self.server.notify)

    def serve(self, notify: Callable[[PushRequest], None]) -> None:
        self.store.serve(self.sources.facts, notify)
        self.sources.on_model(self.store.served.pending)

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
    metrics = Metrics(CollectorRegistry(), version="0")
    clock = ManualClock()
    observer = WorkloadObserver(RegisteredWorkloads(grace_s=10, limits=LIMITS), clock=clock)
    loader = ConfigLoader(config_dir)
    files = FileSource(loader, loader.load(), metrics=metrics)
    sources = Sources(files, observer)
    store = ConfigStore(
        sources.facts,
        metrics=metrics,
        trust_domain="cluster.local",
        domain="cluster.local",
        scope_gateways=False,
        strict_namespaces=False,
    )
    sources.on_model(store.served.pending)

    async def admit(node: Node, _peer: Peer) -> Admission[Proxy]:
        proxy = proxy_of(node, source=served.source)
        return Admission(context=proxy, identities=served.identities)

    server = XdsServer(
        generators(store.served, bundle_pem=bytes),
        admit=admit,
        observer=observer,
        build=store.served.build,
        config=ServerConfig(
            debounce_quiet_s=0.0, reported_types=frozenset({type_urls.HEALTH_INFORMATION})
        ),
    )
    served = Mesh(server, clock, store, files, sources, config_dir)
    server.set_ready()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.running())

        def notify(request: PushRequest) -> None:
            served.rebuilt += 1
            server.notify(request)

        await stack.enter_async_context(observer.following(partial(served.serve, notify)))
        yield served


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


async def report(client: SotwClient, *, failure: str = "") -> None:
    request = discovery_pb2.DiscoveryRequest(type_url=type_urls.HEALTH_INFORMATION)
    if failure:
        request.error_detail.code = 13
        request.error_detail.message = failure
    await client.send(request)


async def test_a_workload_is_there_as_long_as_its_proxy_is_and_as_healthy_as_it_says(
    mesh: Mesh,
) -> None:
    async with mesh.proxy("10.1.0.1") as client:
        await client.subscribe(type_urls.ENDPOINT, CLUSTER)
        await endpoints(client, lambda found: found == {})
        async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="vms") as workload:
            await endpoints(client, lambda found: found == {"10.5.0.1": HEALTHY})
            await report(workload, failure="connection refused")
            await mesh.clock.advance(5)
            await endpoints(client, lambda found: found == {"10.5.0.1": UNHEALTHY})
            await report(workload)
            await mesh.clock.advance(5)
            await endpoints(client, lambda found: found == {"10.5.0.1": HEALTHY})
        await mesh.clock.advance(10)
        await endpoints(client, lambda found: found == {})


async def test_many_changes_of_workloads_are_served_together(mesh: Mesh) -> None:
    mesh.source = "127.0.0.1"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(mesh.proxy("10.1.0.1"))
        await client.subscribe(type_urls.ENDPOINT, CLUSTER)
        await endpoints(client, lambda found: found == {})
        before = mesh.rebuilt
        for number in range(1, 31):
            await stack.enter_async_context(
                mesh.proxy(f"127.0.1.{number}", AUTO_REGISTER_GROUP="vms")
            )
        await mesh.clock.advance(5)
        await endpoints(client, lambda found: len(found) == 30)

    assert mesh.rebuilt - before <= 2


async def test_a_proxy_of_no_group_is_refused(mesh: Mesh) -> None:
    with pytest.raises(StreamEnded, match="there is no WorkloadGroup shop/others") as ended:
        async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="others"):
            pass

    assert ended.value.code is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_proxy_that_has_proved_nothing_is_refused(mesh: Mesh) -> None:
    mesh.identities = ()

    with pytest.raises(StreamEnded, match="has to prove who it is") as ended:
        async with mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="vms"):
            pass

    assert ended.value.code is grpc.StatusCode.UNAUTHENTICATED


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


@pytest.mark.parametrize(
    ("source", "addresses", "registered"),
    [
        ("10.5.0.1", "10.5.0.1", "10.5.0.1"),
        ("10.5.0.1", "192.168.0.1,10.5.0.1", "10.5.0.1"),
        ("10.5.0.1", "10.5.0.2", None),
        ("10.5.0.1", "127.0.0.1", None),
        ("10.5.0.1", "10.9.0.7", "10.9.0.7"),  # in a range of the group
        ("127.0.0.1", "127.64.3.1", "127.64.3.1"),
        ("127.0.0.1", "10.5.0.1", None),
        ("::ffff:10.5.0.1", "10.5.0.1", "10.5.0.1"),
        ("fd00::1", "FD00:0::1", "FD00:0::1"),
        ("", "10.5.0.1", None),
    ],
)
async def test_a_proxy_registers_with_its_connections_address_or_one_that_its_group_allows(
    mesh: Mesh, source: str, addresses: str, registered: str | None
) -> None:
    mesh.source = source
    async with AsyncExitStack() as stack:
        watching = await stack.enter_async_context(mesh.proxy("10.1.0.1"))
        await watching.subscribe(type_urls.ENDPOINT, CLUSTER)
        proxy = mesh.proxy("10.5.0.1", AUTO_REGISTER_GROUP="vms", INSTANCE_IPS=addresses)
        if registered is None:
            with pytest.raises(StreamEnded, match="may register that one, or others") as end:
                await stack.enter_async_context(proxy)
            assert end.value.code is grpc.StatusCode.PERMISSION_DENIED
        else:
            await stack.enter_async_context(proxy)
            await endpoints(watching, lambda found: found == {registered: HEALTHY})


async def test_more_than_an_identity_may_register_is_refused(mesh: Mesh) -> None:
    mesh.source = "127.0.0.1"
    async with AsyncExitStack() as stack:
        for number in range(LIMITS.of_identity):
            await stack.enter_async_context(
                mesh.proxy(f"127.0.1.{number}", AUTO_REGISTER_GROUP="vms")
            )

        with pytest.raises(StreamEnded, match="which is the most") as ended:
            await stack.enter_async_context(mesh.proxy("127.0.2.1", AUTO_REGISTER_GROUP="vms"))

    assert ended.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


FILED = """\
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: filed, namespace: shop}
spec: {address: 10.5.0.1, labels: {app: web}, serviceAccount: web}
"""
WEB, OTHER = ("spiffe://cluster.local/ns/shop/sa/web",), ("spiffe://cluster.local/ns/shop/sa/db",)


@pytest.mark.parametrize(
    ("identities", "source", "metadata", "is_taken_out"),
    [
        (WEB, "10.5.0.1", {}, True),
        (WEB, "10.5.0.2", {"WORKLOAD_ENTRY": "filed"}, True),  # behind a NAT
        (WEB, "10.5.0.2", {}, False),
        (OTHER, "10.5.0.1", {}, False),
        (OTHER, "10.5.0.1", {"WORKLOAD_ENTRY": "filed"}, False),
        ((), "10.5.0.1", {}, False),
        ((), "10.5.0.1", {"WORKLOAD_ENTRY": "filed"}, False),
    ],
)
async def test_a_report_of_health_counts_from_the_workloads_own_identity_alone(  # noqa: PLR0917
    mesh: Mesh,
    identities: tuple[str, ...],
    source: str,
    metadata: Mapping[str, str],
    is_taken_out: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    mesh.add(FILED)
    mesh.identities, mesh.source = identities, source
    async with mesh.proxy("10.5.0.1", **metadata) as client:
        await client.subscribe(type_urls.ENDPOINT, CLUSTER)
        await endpoints(client, lambda found: found == {"10.5.0.1": HEALTHY})
        await report(client, failure="away")
        await client.subscribe(type_urls.NAME_TABLE)  # answered after the report was looked at
        await client.next()
        await mesh.clock.advance(5)
        reports = mesh.store.served.pending.registry.inputs.settings.reports

    assert list(reports.values()) == ([False] if is_taken_out else [])
    assert ("report of health without effect" in caplog.text) is not is_taken_out
