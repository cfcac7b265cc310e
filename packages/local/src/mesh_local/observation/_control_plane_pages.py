"""Pages of the running control plane: which files it has read, what each proxy has accepted."""

import json
from collections.abc import Mapping
from typing import Any

from mesh_local._errors import NoAnswer
from mesh_local.config import _plan as ports
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.observation._http import MAX_BODY_BYTES, fetch
from mesh_local.state._istio import OUT_OF_SERVICE

_MOST_BYTES = 64 * MAX_BODY_BYTES


async def fetch_page(plan: MeshPlan, target: str) -> Any:
    """Return one of the control plane's pages; raises `NoAnswer`."""
    answer = await fetch(
        plan.monitoring_host,
        ports.MONITORING_PORT,
        target=target,
        timeout_s=10.0,
        max_bytes=_MOST_BYTES,
    )
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise NoAnswer(f"{target} of the control plane is no JSON ({error})") from None


def lags(client: Mapping[str, Any]) -> bool:
    """Return whether a proxy has not answered all that there is for it; client: of /debug/syncz."""
    if client["behind"]:
        return True
    return any(
        each["nonce_sent"] != each["nonce_acked"] and each["nack"] is None
        for each in client["types"].values()
    )


async def is_out_of_service(plan: MeshPlan, instance: Instance) -> bool:
    """Return whether all proxies accepted that a replica gets no requests; raises `NoAnswer`."""
    page = await fetch_page(plan, "/debug/configz")
    name = ("WorkloadEntry", instance.workload.namespace, instance.name)
    entries = [
        each["spec"].get("labels") or {}
        for each in page["objects"]
        if (each["kind"], each["namespace"], each["name"]) == name
    ]
    if not all(OUT_OF_SERVICE.items() <= labels.items() for labels in entries):
        return False
    return not any(lags(client) for client in await fetch_page(plan, "/debug/syncz"))
