"""The agent: starts its parts in order, watches them, and stops them in reverse.

Reading order is start order. Envoy is started last and drained first, while everything it
depends on still answers.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import envoy_supervisor
import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent._errors import EnvoyEnded
from mesh_agent.envoy._listener_changes import ListenerChanges
from mesh_agent.envoy._restarts import Restarts
from mesh_agent.identity._learned_roots import CONFIGURATION, further_roots, learned_roots
from mesh_agent.identity._trust_bundle_updates import TrustBundleUpdates
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets, workload_secrets
from mesh_agent.readiness._certificate import watch_identity
from mesh_agent.readiness._envoy import watch_health
from mesh_agent.status._description import AgentView
from mesh_agent.status._endpoints import StatusEndpoints
from mesh_agent.status._http import http_server
from mesh_agent.status._scrape import Scrapes
from mesh_identity import LearnedRoots
from mesh_lifecycle import Readiness, Stopping, in_background, stop_signals

log = logging.getLogger(__name__)


async def run(config: AgentConfig) -> None:
    """Run the agent until it is told to stop; returns when all of it is down.

    Raises `EnvoyEnded` if Envoy ends by itself, and the parts' own errors if one can't start.
    """
    async with AsyncExitStack() as stack:
        stopping = stack.enter_context(stop_signals())
        readiness = Readiness(stopping)
        identity_held = readiness.register("certificate")
        envoy_ready = readiness.register("envoy")
        view = AgentView(config, readiness)
        endpoints = status_endpoints(config, view, readiness, stopping)
        await stack.enter_async_context(
            http_server(
                config.status.host,
                config.status.port,
                endpoints,
                limits=config.status.limits,
                ports=view.ports,
            )
        )
        learned = view.learned_roots = learned_roots(config.learned_roots)
        view.secrets = await stack.enter_async_context(workload_secrets(config, learned))
        if isinstance(view.secrets, OwnSecrets):
            watching = watch_identity(view.secrets.certificates, identity_held)
            await stack.enter_async_context(in_background(watching, name="identity"))
        else:
            identity_held.set()  # Envoy's configuration is not there without one, and that is seen
        names = await stack.enter_async_context(answering(config, view, readiness))
        listener_changes = ListenerChanges()
        view.relay = await stack.enter_async_context(
            xds_proxy.relaying(
                config.relay,
                (*interceptors(config, view.secrets, learned), *names),
                observer=listener_changes,
                further_roots=further_roots(learned, CONFIGURATION),
            )
        )
        envoy = view.envoy = await stack.enter_async_context(envoy_supervisor.running(config.envoy))
        listener_changes.envoy = envoy
        restarts = view.restarts = Restarts(
            envoy, config.envoy, config.bootstrap_files, obstacle=view.obstacle_to_restart
        )
        if config.bootstrap_files.paths:
            await stack.enter_async_context(
                in_background(restarts.follow(), name="bootstrap-files")
            )
        await stack.enter_async_context(
            in_background(
                watch_health(
                    envoy,
                    envoy_ready,
                    poll_s=config.ready_poll_s,
                    control_plane=view.control_plane_said,
                ),
                name="envoy-health",
            )
        )
        log.info(
            "agent started",
            extra={"node_id": config.identity.node_id, "spiffe_id": str(config.spiffe_id)},
        )
        await _until_stopped(stopping, envoy)
        log.info("agent stopping", extra={"reason": stopping.reason})
    log.info("agent stopped")


def status_endpoints(
    config: AgentConfig, view: AgentView, readiness: Readiness, stopping: Stopping
) -> StatusEndpoints:
    """What the status server answers."""
    return StatusEndpoints(
        readiness,
        stopping,
        drain=view.drain,
        restart=view.restart,
        describe=view.describe,
        scrape=Scrapes(view.metrics, envoy=view.envoy_metrics).answer,
        names=view.name_table,
        metrics_local_only=config.status.local_metrics,
    )


@asynccontextmanager
async def answering(
    config: AgentConfig, view: AgentView, readiness: Readiness
) -> AsyncIterator[tuple[xds_proxy.Interceptor, ...]]:
    """Answer the workload's DNS queries, if it is to be; yields what takes the name tables."""
    if config.names is None:
        yield ()
        return
    # Few agents need the DNS server.
    from mesh_agent.dns._name_table_updates import NameTableUpdates
    from mesh_agent.dns._server import answering_names

    async with answering_names(config.names, readiness) as server:
        view.names = server
        yield (NameTableUpdates(server),)


def interceptors(
    config: AgentConfig, secrets: OwnSecrets | ForeignSecrets, learned: LearnedRoots | None
) -> tuple[xds_proxy.Interceptor, ...]:
    """What the agent itself takes from the configuration stream."""
    if isinstance(secrets, OwnSecrets) and config.trust_updates:
        return (TrustBundleUpdates(secrets.certificates, learned),)
    return ()


async def _until_stopped(stopping: Stopping, envoy: envoy_supervisor.Envoy) -> None:
    """Wait until told to stop; raises `EnvoyEnded` if Envoy ends first."""
    exits = asyncio.create_task(envoy.wait_exit(), name="envoy-exit")
    wishes = asyncio.create_task(stopping.wait(), name="stop-request")
    try:
        await asyncio.wait({exits, wishes}, return_when=asyncio.FIRST_COMPLETED)
        if exits.done() and not stopping.requested:
            raise EnvoyEnded(f"envoy ended by itself: {exits.result().reason}")
    finally:
        for task in (exits, wishes):
            task.cancel()
        await asyncio.wait({exits, wishes})
