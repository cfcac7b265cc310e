"""The types of resources that the agent takes out of the configuration stream for itself."""

from typing import TYPE_CHECKING

import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.identity._trust_bundle_updates import TrustBundleUpdates
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_identity import LearnedRoots

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


def interceptors(
    config: AgentConfig,
    secrets: OwnSecrets | ForeignSecrets,
    learned: LearnedRoots | None,
    dns: "DnsServer | None",
) -> tuple[xds_proxy.Interceptor, ...]:
    """Return the interceptors: of trust bundles if they are wanted, of name tables with DNS."""
    found: list[xds_proxy.Interceptor] = []
    if isinstance(secrets, OwnSecrets) and config.trust_updates:
        found.append(TrustBundleUpdates(secrets.certificates, learned))
    if dns is not None:
        from mesh_agent.dns._name_table_updates import NameTableUpdates  # brings the DNS server

        found.append(NameTableUpdates(dns))
    return tuple(found)
