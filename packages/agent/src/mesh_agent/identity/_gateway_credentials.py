"""Tells the control plane whether another process serves the certificates of gateways.

With node metadata `credential` the control plane names gateway certificates in such a way that
Envoy asks for them at that process's socket, as in Istio.
"""

import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec import structs

import envoy_supervisor
import mesh_sds
from mesh_agent._config import AgentConfig
from mesh_listening import ListenError, SocketFile, inspect_socket_path

log = logging.getLogger(__name__)


async def with_gateway_credentials(config: AgentConfig) -> AgentConfig:
    """Return the configuration, with node metadata `credential` if the socket is served."""
    bootstrap = config.envoy.bootstrap
    if not isinstance(bootstrap, envoy_supervisor.BootstrapConfig):
        return config
    if not await _is_served(config.gateway_credentials):
        return config
    metadata = {**bootstrap.node_metadata, "credential": "true"}
    extended = replace(bootstrap, node_metadata=metadata)
    return structs.replace(config, envoy=replace(config.envoy, bootstrap=extended))


async def _is_served(path: Path) -> bool:
    with suppress(ListenError):  # reported below
        if inspect_socket_path(path) in (SocketFile.ABSENT, SocketFile.DEAD):
            return False  # without loading gRPC, which asks a server
    try:
        return isinstance(await mesh_sds.probe(path), mesh_sds.ForeignSocket)
    except mesh_sds.SdsError as error:
        # The agent does not serve this socket, so it can start without it.
        log.warning("the socket for gateway credentials is not used", extra={"reason": str(error)})
        return False
