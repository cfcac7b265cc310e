"""The parts that an agent has with an Envoy and without: DNS, interceptors, status endpoints."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.dns._dns_config import NamesConfig
from mesh_agent.identity._trust_bundle_updates import TrustBundleUpdates
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_agent.status._description import describe
from mesh_agent.status._endpoints import AgentEndpoints, EnvoyCommands
from mesh_agent.status._metrics import agent_metrics
from mesh_agent.status._parts import AgentParts
from mesh_agent.status._scrape import Scrapes, envoy_metrics_address
from mesh_identity import LearnedRoots
from mesh_lifecycle import Readiness

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


@asynccontextmanager
async def dns_server(
    config: NamesConfig | None, readiness: Readiness
) -> "AsyncIterator[DnsServer | None]":
    """Answer the workload's DNS queries while the block runs; without a config, yields None."""
    if config is None:
        yield None
        return
    from mesh_agent.dns._server import answering_names  # few agents need the DNS server

    async with answering_names(config, readiness) as server:
        yield server


def interceptors(
    config: AgentConfig,
    secrets: OwnSecrets | ForeignSecrets,
    learned: LearnedRoots | None,
    dns: "DnsServer | None",
) -> tuple[xds_proxy.Interceptor, ...]:
    """Returns the interceptors: each takes a type of the agent's own out of the stream."""
    found: list[xds_proxy.Interceptor] = []
    if isinstance(secrets, OwnSecrets) and config.trust_updates:
        found.append(TrustBundleUpdates(secrets.certificates, learned))
    if dns is not None:
        from mesh_agent.dns._name_table_updates import NameTableUpdates  # brings the DNS server

        found.append(NameTableUpdates(dns))
    return tuple(found)


def agent_endpoints(parts: AgentParts, commands: EnvoyCommands | None) -> AgentEndpoints:
    """Returns the endpoints of an agent whose parts have all started."""
    scrapes = Scrapes(partial(agent_metrics, parts), envoy=partial(envoy_metrics_address, parts))
    return AgentEndpoints(
        describe=partial(describe, parts),
        scrape=scrapes.answer,
        name_table=partial(name_table, parts.dns),
        envoy=commands,
    )


async def name_table(dns: "DnsServer | None") -> bytes | None:
    """Returns the table that DNS queries are answered from, as JSON; None if none are answered."""
    return None if dns is None else await dns.table_json()
