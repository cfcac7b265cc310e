"""Certificates of gateways that somebody else serves: the control plane is told that they do.

With node metadata `credential` it names gateway certificates so that Envoy asks for them at that
socket, as Istio does.
"""

import logging
from dataclasses import replace
from pathlib import Path

import envoy_supervisor
import mesh_sds
from mesh_agent._config import AgentConfig

log = logging.getLogger(__name__)


async def with_gateway_credentials(config: AgentConfig) -> AgentConfig:
    """Look whether the socket for gateway credentials is served; if so, say so in the metadata."""
    bootstrap = config.envoy.bootstrap
    if not isinstance(bootstrap, envoy_supervisor.BootstrapConfig):
        return config
    if not await _is_served(config.gateway_credentials):
        return config
    metadata = {**bootstrap.node_metadata, "credential": "true"}
    told = replace(bootstrap, node_metadata=metadata)
    return replace(config, envoy=replace(config.envoy, bootstrap=told))


async def _is_served(path: Path) -> bool:
    try:
        return isinstance(await mesh_sds.probe(path), mesh_sds.ForeignSocket)
    except mesh_sds.SdsError as error:
        # Not ours to serve, so nothing that keeps us from starting.
        log.warning("socket for gateway credentials left aside", extra={"reason": str(error)})
        return False
