"""All sources together: each sees what those before it know, and is notified of what is served."""

import asyncio
from typing import Any

from mesh_discovery import MemorySource
from mesh_discovery.sources._all_sources import Sources
from mesh_discovery.sources._gateway_names import GatewayNames
from mesh_discovery.sources.registration._group_entries import Registrant
from mesh_discovery.sources.registration._registered_workloads import RegisteredWorkloads
from mesh_discovery.sources.registration._workload_observer import WorkloadObserver
from mesh_model import build_model

GROUP: Any = {
    "apiVersion": "networking.istio.io/v1",
    "kind": "WorkloadGroup",
    "metadata": {"name": "vms", "namespace": "shop"},
    "spec": {"template": {"serviceAccount": "vm"}},
}
NETWORKS: Any = {
    "apiVersion": "mesh.istio.io/v1alpha1",
    "kind": "MeshNetworks",
    "spec": {
        "networks": {
            "n2": {
                "endpoints": [{"fromCidr": "10.2.0.0/16"}],
                "gateways": [{"address": "gateway.test", "port": 15443}],
            }
        }
    },
}


def test_a_workload_registers_in_a_group_of_the_source_before_it() -> None:
    workloads = RegisteredWorkloads(grace_s=10)
    registrant = Registrant(namespace="shop", group="vms", account="vm", address="10.0.0.1")
    workloads.connected(registrant, "stream", now=0, monotonic=0)
    objects = MemorySource()
    sources = Sources(objects, WorkloadObserver(workloads))
    assert not sources.facts.registered

    objects.put(GROUP)
    (entry,) = sources.facts.registered
    assert (entry.namespace, entry.spec.address) == ("shop", "10.0.0.1")  # type: ignore[attr-defined]
    assert entry in sources.facts.objects.objects
    assert entry not in sources.facts.snapshot.objects

    objects.remove("WorkloadGroup", "vms", namespace="shop")
    assert not sources.facts.registered


async def test_what_a_mesh_asks_for_is_found_out_and_published_as_facts() -> None:
    asked: list[str] = []
    times: list[float | None] = []

    async def resolve(name: str) -> list[str]:
        asked.append(name)
        return ["192.0.2.1"]

    objects = MemorySource([NETWORKS])
    sources = Sources(objects, GatewayNames(resolve=resolve))
    sources.on_model(build_model(sources.facts))

    came = asyncio.Event()

    def changed(*, at: float | None = None) -> None:
        times.append(at)
        came.set()

    async with sources.following(changed), asyncio.timeout(30):
        await came.wait()
        assert sources.facts.addresses == {"gateway.test": ("192.0.2.1",)}
        objects.put(GROUP)
        assert len(times) == 2
    assert asked == ["gateway.test"]
