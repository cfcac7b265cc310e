"""The counters that an Envoy keeps of each endpoint, which no filter of its stats leaves out."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mesh_local._errors import NoAnswer
from mesh_local.config._addresses import Inside
from mesh_local.observation._http import MAX_BODY_BYTES, fetch

ADMIN_PORT = 15000
INBOUND = "inbound|"
OUTBOUND = "outbound|"
_MOST_BYTES = 64 * MAX_BODY_BYTES


class EndpointUse(NamedTuple):
    """The requests to one endpoint of a cluster; over TCP, connections count as requests."""

    cluster: str
    address: str
    port: int
    active: int
    total: int


async def fetch_endpoint_use(
    host: str | Inside, *, timeout_s: float = 2.0
) -> tuple[EndpointUse, ...]:
    """Ask the Envoy whose admin interface is at this address; raises `NoAnswer`."""
    answer = await fetch(
        host,
        ADMIN_PORT,
        target="/clusters?format=json",
        timeout_s=timeout_s,
        max_bytes=_MOST_BYTES,
    )
    try:
        return tuple(read_endpoint_use(json.loads(answer.body)))
    except (ValueError, KeyError, TypeError) as error:
        raise NoAnswer(f"no list of clusters ({error})") from None


def read_endpoint_use(document: Mapping[str, object]) -> Iterator[EndpointUse]:
    """Yield what the page says; counters that are zero have no value there."""
    clusters = document.get("cluster_statuses", ())
    for cluster in clusters if isinstance(clusters, list) else ():
        for endpoint in cluster.get("host_statuses", ()):
            address = endpoint["address"].get("socket_address")
            if address is None:  # a Unix socket, or an endpoint inside Envoy
                continue
            counters = {each["name"]: int(each.get("value", 0)) for each in endpoint["stats"]}
            yield EndpointUse(
                cluster=cluster["name"],
                address=address["address"],
                port=address["port_value"],
                active=counters.get("rq_active", 0),
                total=counters.get("rq_total", 0),
            )
