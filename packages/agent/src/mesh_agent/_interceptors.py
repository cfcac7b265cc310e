"""The types of resources that the agent takes out of the configuration stream for itself."""

from typing import TYPE_CHECKING

import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.envoy._start_settings import StartDifferences
from mesh_agent.identity._trust_bundle_updates import TrustBundleUpdates
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_identity import LearnedRoots
from mesh_protos import type_urls
from mesh_protowire import WireError

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


class ProxyConfigUpdates:
    """Takes the roots out of a proxy config, and what it says of the agent's start."""

    type_url = type_urls.PROXY_CONFIG

    def __init__(self, trust: TrustBundleUpdates, start: StartDifferences) -> None:
        self._trust = trust
        self._start = start

    def apply(self, response: bytes) -> None:
        """Use a response; raises `InterceptorRefused`."""
        self._trust.apply(response)
        try:
            self._start.apply(response)
        except WireError as error:
            raise xds_proxy.InterceptorRefused(str(error)) from error

    def apply_saved(self, response: bytes) -> None:
        """Trust the roots of an earlier run; raises `InterceptorRefused`.

        What it says of starts may no longer be wanted.
        """
        self._trust.apply_saved(response)


def interceptors(
    config: AgentConfig,
    secrets: OwnSecrets | ForeignSecrets,
    learned: LearnedRoots | None,
    dns: "DnsServer | None",
    start: StartDifferences,
) -> tuple[xds_proxy.Interceptor, ...]:
    """Return the interceptors: of proxy configs if roots are wanted, of name tables with DNS."""
    found: list[xds_proxy.Interceptor] = []
    if isinstance(secrets, OwnSecrets) and config.trust_updates:
        trust = TrustBundleUpdates(secrets.certificates, learned)
        found.append(ProxyConfigUpdates(trust, start))
    if dns is not None:
        from mesh_agent.dns._name_table_updates import NameTableUpdates  # brings the DNS server

        found.append(NameTableUpdates(dns))
    return tuple(found)
