"""The parts of an agent that has started: what its status and its metrics are read from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import envoy_supervisor
import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_identity import LearnedRoots
from mesh_lifecycle import Readiness
from mesh_listening import Port

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """Every part of a running agent.

    status_port: counts the status server's connections.
    learned_roots: None where the agent learns no roots.
    envoy: None where the application takes its configuration without an Envoy.
    dns: None where the agent answers no DNS queries.
    """

    config: AgentConfig
    readiness: Readiness
    status_port: Port
    secrets: OwnSecrets | ForeignSecrets
    learned_roots: LearnedRoots | None
    relay: xds_proxy.Relay
    envoy: envoy_supervisor.Envoy | None
    dns: "DnsServer | None"
