"""The parts of an agent that has started: what its status and its metrics are read from."""

from typing import TYPE_CHECKING

import msgspec

import envoy_supervisor
import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.envoy._start_settings import StartDifferences
from mesh_agent.health._health_reports import HealthReports
from mesh_agent.identity._served_certificate import ServedCertificate
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_identity import LearnedRoots
from mesh_lifecycle import Readiness
from mesh_listening import Port

if TYPE_CHECKING:
    from mesh_agent.envoy._adaptation import EnvoyAdapter
    from mesh_agent.token_exchange._token_server import TokenServer
    from mesh_agent.wasm._wasm_filters import WasmFilters
    from mesh_dnsproxy import DnsServer


class AgentParts(msgspec.Struct, frozen=True, kw_only=True):
    """Every part of a running agent.

    status_port: counts the status server's connections.
    learned_roots: None where the agent learns no roots.
    envoy: None where the application takes its configuration without an Envoy.
    dns: None where the agent answers no DNS queries.
    served: None where there is no Envoy.
    health: None where the application's health is not reported.
    tokens: None where the application exchanges no tokens.
    adapter: None where resources go to Envoy as the control plane generated them.
    wasm: None where Envoy fetches its Wasm modules itself.
    """

    config: AgentConfig
    readiness: Readiness
    status_port: Port
    secrets: OwnSecrets | ForeignSecrets
    learned_roots: LearnedRoots | None
    relay: xds_proxy.Relay
    start_differences: StartDifferences
    envoy: envoy_supervisor.Envoy | None
    dns: "DnsServer | None"
    served: ServedCertificate | None
    health: HealthReports | None
    tokens: "TokenServer | None"
    adapter: "EnvoyAdapter | None" = None
    wasm: "WasmFilters | None" = None
