"""What an Envoy says of itself at its admin port."""

import json
from typing import Any

from mesh_e2e._load import Target, send
from mesh_local import RunningWorkload

ADMIN_PORT = 15000


async def admin(workload: RunningWorkload, path: str) -> Any:
    """Ask a workload's Envoy, which answers in JSON."""
    target = Target(host=workload.instance.addresses.inbound, port=ADMIN_PORT, url=path)
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
    found = await admin(workload, "/clusters?format=json")
    return sum(
        int(stat.get("value", 0))
        for each in found["cluster_statuses"]
        if each["name"].startswith(cluster)
        for host in each.get("host_statuses", ())
        for stat in host["stats"]
        if stat["name"] == "rq_active"
    )
