"""Makes the answers of the status server's endpoints from the parts of a started agent."""

from functools import partial
from typing import TYPE_CHECKING

from mesh_agent.status._description import describe
from mesh_agent.status._endpoints import AgentEndpoints, EnvoyCommands
from mesh_agent.status._explain_dns import explain_dns
from mesh_agent.status._metrics import agent_metrics
from mesh_agent.status._parts import AgentParts
from mesh_agent.status._scrape import Scrapes, envoy_metrics_address

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


def agent_endpoints(parts: AgentParts, commands: EnvoyCommands | None) -> AgentEndpoints:
    """Returns the endpoints of an agent whose parts have all started."""
    scrapes = Scrapes(partial(agent_metrics, parts), envoy=partial(envoy_metrics_address, parts))
    return AgentEndpoints(
        describe=partial(describe, parts),
        scrape=scrapes.answer,
        name_table=partial(name_table, parts.dns),
        explain_dns=partial(explain_dns, parts.dns),
        envoy=commands,
    )


async def name_table(dns: "DnsServer | None") -> bytes | None:
    """Returns the table that DNS queries are answered from, as JSON; None if none are answered."""
    return None if dns is None else await dns.table_json()
