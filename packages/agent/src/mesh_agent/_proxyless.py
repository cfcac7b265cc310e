"""The agent of a gRPC application that takes its configuration itself: it runs no Envoy.

The application reads a bootstrap file that names the relay's socket and the certificate's files;
the agent keeps all three up.
"""

import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import structs

import xds_proxy
from mesh_agent._common_start import Conditions, common_start
from mesh_agent._config import AgentConfig
from mesh_agent._interceptors import interceptors
from mesh_agent._stop_deadline import StopBegan, stop_deadline, stop_limit
from mesh_agent.application._application_life import ApplicationLife, application_life
from mesh_agent.dns._dns_server import dns_server
from mesh_agent.envoy._machine_place import machine_place
from mesh_agent.envoy._start_settings import StartDifferences
from mesh_agent.health._health_reports import health_reports
from mesh_agent.identity._learned_roots import CONFIGURATION, further_roots
from mesh_agent.identity._own_certificate import own_certificate
from mesh_agent.identity._workload_secrets import fresh_certificates
from mesh_agent.proxyless._grpc_bootstrap import (
    files_needed,
    grpc_bootstrap,
    keep_refresh_interval,
    write_grpc_bootstrap,
)
from mesh_agent.readiness._certificate import certificate_condition
from mesh_agent.readiness._grpc_files import watch_files
from mesh_agent.status._agent_endpoints import agent_endpoints
from mesh_agent.status._control_plane_debug import debug_tap
from mesh_agent.status._parts import AgentParts
from mesh_agent.token_exchange._token_server import token_server
from mesh_lifecycle import in_background

log = logging.getLogger(__name__)


async def run_without_envoy(
    config: AgentConfig,
    bootstrap_path: Path,
    *,
    conditions: Conditions | None = None,
    stop_began: StopBegan | None = None,
) -> int:
    """Run the agent until it is asked to stop; returns its exit status when all of it is down.

    As `run`. Raises `BootstrapNotWritten`, and the parts' own errors if one can't start.
    """
    async with (
        stop_deadline(stop_limit(config), stop_began) as begin_stop,
        AsyncExitStack() as stack,
    ):
        try:
            life = await _run_until_stopped(config, bootstrap_path, stack, conditions)
        finally:
            begin_stop()
    log.info("agent stopped", extra={"exit_status": life.exit_status})
    return life.exit_status


async def _run_until_stopped(
    config: AgentConfig,
    bootstrap_path: Path,
    stack: AsyncExitStack,
    conditions: Conditions | None,
) -> ApplicationLife:
    place = await stack.enter_async_context(machine_place(config.place))
    start = await stack.enter_async_context(common_start(config, conditions))
    files_ready = start.readiness.register("files")
    learned = start.learned_roots
    secrets = await stack.enter_async_context(fresh_certificates(config, learned))
    await stack.enter_async_context(
        certificate_condition(secrets.certificates, start.certificate_ready)
    )
    dns = await stack.enter_async_context(dns_server(config.names, start.readiness))
    start_differences = StartDifferences(config.start, os.environ)
    relay = await stack.enter_async_context(
        xds_proxy.relaying(
            config.relay,
            interceptors(config, secrets, learned, dns, start_differences),
            further_roots=further_roots(learned, CONFIGURATION),
            own_certificate=own_certificate(secrets),
        )
    )
    await stack.enter_async_context(debug_tap(relay.ask, config.status.debug_tap))
    placed = structs.replace(config, envoy=place.applied(config.envoy))
    await write_grpc_bootstrap(bootstrap_path, grpc_bootstrap(placed))
    refreshing = keep_refresh_interval(placed, bootstrap_path, secrets.certificates)
    await stack.enter_async_context(in_background(refreshing, name="grpc bootstrap"))
    watching_files = watch_files(files_needed(config, bootstrap_path), files_ready)
    await stack.enter_async_context(in_background(watching_files, name="files"))
    tokens = await stack.enter_async_context(token_server(config.token_exchange))
    health = await stack.enter_async_context(
        health_reports(config.health_check, readiness=start.readiness, relay=relay)
    )
    parts = AgentParts(
        config=config,
        readiness=start.readiness,
        status_port=start.status_port,
        secrets=secrets,
        learned_roots=learned,
        relay=relay,
        start_differences=start_differences,
        envoy=None,
        dns=dns,
        served=None,
        health=health,
        tokens=tokens,
    )
    start.endpoints.agent_started(agent_endpoints(parts, None))
    log.info(
        "agent started without envoy",
        extra={"node_id": config.identity.node_id, "bootstrap": str(bootstrap_path)},
    )
    life = await stack.enter_async_context(
        application_life(
            config.application,
            readiness=start.readiness,
            stopping=start.stopping,
            drain=_no_envoy,
            ended=lambda: None,
        )
    )
    await start.stopping.wait()
    log.info("agent stopping", extra={"reason": start.stopping.reason})
    return life


async def _no_envoy() -> None:
    """Without an Envoy there is nothing to drain."""
