"""What an Envoy says of itself at its admin port."""

import json
from typing import Any

from mesh_e2e._load import Target, send
from mesh_local import RunningWorkload

ADMIN_PORT = 15000


async def admin(workload: RunningWorkload, path: str) -> Any:
    """Ask a workload's Envoy, which answers in JSON."""
    return await _admin_at(workload.instance.addresses.inbound, path)


async def _admin_at(address: str, path: str) -> Any:
    target = Target(host=address, port=ADMIN_PORT, url=path)
    status, body = await send(target)
    assert status == 200, (status, body)
    return json.loads(body)


async def envoy_serials(workload: RunningWorkload) -> frozenset[str]:
    """Return the serials of the workload certificates that Envoy holds now."""
    held = await admin(workload, "/certs")
    return frozenset(
        leaf["serial_number"].lstrip("0")
        for certificate in held["certificates"]
        for leaf in certificate.get("cert_chain", ())
    )


async def requests_open(workload: RunningWorkload, cluster: str) -> int:
    """Count the requests that an Envoy has sent to clusters of this name and waits for."""
    return await requests_open_at(workload.instance.addresses.inbound, cluster)


async def requests_open_at(address: str, cluster: str) -> int:
    """Count them for the Envoy whose admin interface is at this address."""
    found = await _admin_at(address, "/clusters?format=json")
    return sum(
        int(stat.get("value", 0))
        for each in found["cluster_statuses"]
        if each["name"].startswith(cluster)
        for host in each.get("host_statuses", ())
        for stat in host["stats"]
        if stat["name"] == "rq_active"
    )
