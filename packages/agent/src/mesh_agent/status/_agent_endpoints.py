"""Makes the answers of the status server's endpoints from the parts of a started agent."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import envoy_supervisor
from mesh_agent.envoy._restarts import Restarts
from mesh_agent.status._control_plane_debug import control_plane_debug
from mesh_agent.status._description import describe
from mesh_agent.status._endpoints import CONTROL_PLANE_PATH, AgentEndpoints, EnvoyCommands
from mesh_agent.status._explain_dns import explain_dns
from mesh_agent.status._metrics import agent_metrics, scrape_metrics
from mesh_agent.status._parts import AgentParts
from mesh_status_server import (
    Address,
    MergedMetrics,
    Metric,
    Reply,
    Request,
    Source,
    TcpAddress,
    envoy_source,
    passed_on,
)

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


def agent_endpoints(parts: AgentParts, restarts: Restarts | None) -> AgentEndpoints:
    """Return the endpoints of an agent whose parts have all started.

    restarts: None without an Envoy.
    """

    def own() -> Iterator[Metric]:
        yield from agent_metrics(parts)
        yield from scrape_metrics(merged.counts)

    merged = MergedMetrics(own, sources=partial(metrics_sources, parts))
    commands = None
    if parts.envoy is not None and restarts is not None:
        commands = EnvoyCommands(
            drain=parts.envoy.drain,
            restart=restarts.restart,
            config_dump=partial(config_dump, parts.envoy),
        )
    return AgentEndpoints(
        describe=partial(describe, parts),
        scrape=merged.answer,
        configuration=parts.config.effective.as_json,
        name_table=partial(name_table, parts.dns),
        explain_dns=partial(explain_dns, parts.dns),
        control_plane_debug=control_plane_debug(parts.relay.ask, path=CONTROL_PLANE_PATH),
        envoy=commands,
    )


async def name_table(dns: "DnsServer | None") -> bytes | None:
    """Return the table that DNS queries are answered from, as JSON; None if none are answered."""
    return None if dns is None else await dns.table_json()


async def config_dump(envoy: envoy_supervisor.Envoy, request: Request) -> Reply:
    """Answer with Envoy's configuration; a query (`?include_eds`, `?resource=`) reaches Envoy."""
    query = f"?{request.query}" if request.query else ""
    return passed_on(_admin_address(envoy), f"/config_dump{query}", server="envoy")


def metrics_sources(parts: AgentParts) -> Sequence[Source]:
    """Return whose metrics follow the agent's own: Envoy's, if wanted, and the application's."""
    status = parts.config.status
    if parts.envoy is None or not status.envoy_metrics:
        return status.scrape_targets
    return (envoy_source(_admin_address(parts.envoy)), *status.scrape_targets)


def _admin_address(envoy: envoy_supervisor.Envoy) -> Address:
    address = envoy.admin.address
    if isinstance(address, envoy_supervisor.UnixAddress):
        return address.path
    return TcpAddress(address.host, address.port)
