"""A machine's agent registers as a workload of a group, by the identity that it has proved."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mesh_e2e import (
    TOKEN,
    Plane,
    Target,
    Unanswered,
    own_address,
    plane,
    put,
    running_agent,
    send,
    workload,
)
from mesh_e2e._troubles import NAMESPACE
from mesh_testkit import until

GROUP = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms, namespace: shop}
spec:
  hosts: [vms.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8081, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: vms}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms, namespace: shop}
spec:
  metadata: {labels: {app: vms}}
  template: {serviceAccount: web}
  probe: {tcpSocket: {port: 8081}}
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with plane(tmp_path_factory.mktemp("plane"), own_address(72)) as running:
        (running.directory / "config/group.yaml").write_text(GROUP)
        yield running


async def endpoints(there: Plane) -> list[dict[str, Any]]:
    target = Target(host=there.address, port=15014, url="/debug/registryz")
    services = json.loads((await send(target))[1])
    return [
        endpoint
        for service in services
        if service["host"] == "vms.shop.svc.cluster.local"
        for endpoint in service["endpoints"]
    ]


def registering(there: Plane, directory: Path, address: str) -> dict[str, str]:
    """Prepare a machine whose agent registers; its labels are of its own choice."""
    own = workload(there, directory, address)
    proxy_config = {
        "discoveryAddress": f"{there.address}:15012",
        "readinessProbe": {"tcpSocket": {"port": 8081}, "periodSeconds": 1, "failureThreshold": 1},
    }
    return {
        **own.environment,
        "PROXY_CONFIG": json.dumps(proxy_config),
        "ISTIO_META_AUTO_REGISTER_GROUP": "vms",
        "ISTIO_METAJSON_LABELS": '{"app": "vms", "security.istio.io/tlsMode": "disabled"}',
    }


async def test_an_agent_with_the_account_of_its_group_is_an_endpoint_in_mutual_tls(
    tmp_path: Path, there: Plane
) -> None:
    address = own_address(73)
    environment = registering(there, tmp_path / "vm", address)
    found: list[dict[str, Any]] = []

    async def is_healthy() -> bool:  # by its report: until then it counts as unhealthy
        nonlocal found
        with suppress(OSError, Unanswered):
            found = await endpoints(there)
        return bool(found) and found[0]["health"] == "HEALTHY"

    async with running_agent(tmp_path / "vm", environment):
        await until(is_healthy, what="the registered workload", seen=lambda: found)
        (endpoint,) = found
        assert (endpoint["address"], endpoint["service_account"]) == (address, "web")
        assert endpoint["labels"] == [["app", "vms"]]


async def test_an_agent_with_another_account_of_the_namespace_is_none_and_gets_the_reason(
    tmp_path: Path, there: Plane
) -> None:
    environment = registering(there, tmp_path / "vm", own_address(74))
    put(tmp_path / "vm", TOKEN, there.tokens.issue(NAMESPACE, "db"))

    async with running_agent(tmp_path / "vm", {**environment, "SERVICE_ACCOUNT": "db"}) as agent:

        async def is_logged() -> bool:
            return "is for the service account web" in agent.log.read_text()

        await until(is_logged, what="the reason in the agent's log")
        assert own_address(74) not in {each["address"] for each in await endpoints(there)}
