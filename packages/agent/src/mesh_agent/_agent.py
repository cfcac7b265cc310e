"""The agent: starts its parts in order, watches them, and stops them in reverse.

Reading order is start order. What needs neither gRPC nor x509 begins in `_envoy_start`, before this
module is loaded, and Envoy's process with it: it waits for the parts that it depends on. It is
drained first, while these still answer.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import envoy_supervisor
import xds_proxy
from mesh_agent._common_start import Conditions
from mesh_agent._config import AgentConfig
from mesh_agent._envoy_start import StartedEnvoy, envoy_started
from mesh_agent._envoy_watches import watching
from mesh_agent._errors import EnvoyEnded
from mesh_agent._interceptors import interceptors
from mesh_agent._stop_deadline import StopBegan, stop_deadline, stop_limit
from mesh_agent.application._application_life import ApplicationLife, application_life
from mesh_agent.dns._dns_server import dns_server
from mesh_agent.envoy._adaptation import EnvoyAdapter
from mesh_agent.envoy._listener_changes import ListenerChanges
from mesh_agent.envoy._restarts import Restarts, obstacle_to_restart
from mesh_agent.envoy._start_settings import StartDifferences
from mesh_agent.health._health_reports import health_reports
from mesh_agent.identity._learned_roots import CONFIGURATION, further_roots
from mesh_agent.identity._own_certificate import own_certificate
from mesh_agent.identity._workload_secrets import OwnSecrets, workload_secrets
from mesh_agent.logs._reopening import reopening_access_logs
from mesh_agent.proxyless._grpc_beside_envoy import serving_grpc
from mesh_agent.readiness._certificate import certificate_condition
from mesh_agent.status._agent_endpoints import agent_endpoints
from mesh_agent.status._control_plane_debug import debug_tap
from mesh_agent.status._parts import AgentParts
from mesh_agent.token_exchange._token_server import token_server
from mesh_agent.wasm._wasm_filters import wasm_filters
from mesh_lifecycle import Stopping, in_background

log = logging.getLogger(__name__)


async def run(
    config: AgentConfig,
    *,
    conditions: Conditions | None = None,
    stop_began: StopBegan | None = None,
) -> int:
    """Run the agent until it is asked to stop; returns its exit status when all of it is down.

    The exit status is 0, or that of the application that the agent started.
    conditions: for being ready, besides the agent's own. stop_began: called with the seconds that
    the stop may take.
    Raises `EnvoyEnded` if Envoy ends by itself, `StopOverdue`, `ApplicationNotStarted`,
    `NoSuchProcess`, and the parts' own errors if one can't start.
    """
    async with envoy_started(config, conditions) as started:
        return await run_beside(started, config, stop_began=stop_began)


async def run_beside(
    started: StartedEnvoy,
    config: AgentConfig,
    *,
    stop_began: StopBegan | None = None,
) -> int:
    """Do what `run` does beside an Envoy that was started; it has stopped afterwards."""
    async with (
        stop_deadline(stop_limit(config), stop_began) as begin_stop,
        AsyncExitStack() as stack,
    ):
        try:
            life = await _run_until_stopped(started, config, stack)
        finally:
            begin_stop()
    log.info("agent stopped", extra={"exit_status": life.exit_status})
    return life.exit_status


async def _run_until_stopped(
    started: StartedEnvoy, config: AgentConfig, stack: AsyncExitStack
) -> ApplicationLife:
    start, envoy = started.common, started.envoy
    envoy_ready = start.readiness.register("envoy")
    beside = config.grpc_beside_envoy
    is_asked_for = beside is not None and beside.is_asked_for
    files_ready = start.readiness.register("files") if is_asked_for else None
    learned = start.learned_roots
    secrets = await stack.enter_async_context(
        workload_secrets(config, learned, listening=started.secrets)
    )
    certificates = secrets.certificates if isinstance(secrets, OwnSecrets) else None
    await stack.enter_async_context(certificate_condition(certificates, start.certificate_ready))
    dns = await stack.enter_async_context(dns_server(config.names, start.readiness))
    wasm = await stack.enter_async_context(wasm_filters(config.wasm))
    listener_changes = ListenerChanges()
    stack.enter_context(listener_changes.reporting_to(envoy))
    adapter = EnvoyAdapter() if config.adapt_to_envoy else None
    start_differences = StartDifferences(config.start, os.environ)
    relay = await stack.enter_async_context(
        xds_proxy.relaying(
            replace(config.relay, saved=config.state.configuration, quarantine=config.quarantine),
            interceptors(config, secrets, learned, dns, start_differences),
            observer=listener_changes,
            rewriters=tuple(each for each in (wasm, adapter) if each is not None),
            further_roots=further_roots(learned, CONFIGURATION),
            own_certificate=own_certificate(secrets),
            listening=started.configuration,
        )
    )
    await stack.enter_async_context(
        serving_grpc(
            config, place=started.place, secrets=secrets, learned=learned, ready=files_ready
        )
    )
    if wasm is not None:
        wasm.on_recovered(relay.rewrite_again)
    await stack.enter_async_context(debug_tap(relay.ask, config.status.debug_tap))
    stack.push_async_callback(started.stop)
    stack.enter_context(reopening_access_logs(envoy))
    restarts = Restarts(
        envoy,
        config.envoy,
        config.bootstrap_files,
        obstacle=partial(obstacle_to_restart, relay, config.bootstrap_files),
        amended=started.place.applied,
    )
    if config.bootstrap_files.paths:
        await stack.enter_async_context(in_background(restarts.follow(), name="bootstrap-files"))
    served = await stack.enter_async_context(
        watching(
            envoy,
            config,
            ready=envoy_ready,
            readiness=start.readiness,
            relay=relay,
            secrets=secrets,
            listener_changes=listener_changes,
        )
    )
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
        envoy=envoy,
        dns=dns,
        served=served,
        health=health,
        tokens=tokens,
        adapter=adapter,
        wasm=wasm,
    )
    start.endpoints.agent_started(agent_endpoints(parts, restarts))
    log.info(
        "agent started",
        extra={"node_id": config.identity.node_id, "spiffe_id": str(config.spiffe_id)},
    )
    life = await stack.enter_async_context(
        application_life(
            config.application,
            readiness=start.readiness,
            stopping=start.stopping,
            drain=envoy.drain,
            ended=envoy.shorten_drain,
        )
    )
    await _until_stopped(start.stopping, envoy)
    log.info("agent stopping", extra={"reason": start.stopping.reason})
    return life


async def _until_stopped(stopping: Stopping, envoy: envoy_supervisor.Envoy) -> None:
    """Wait until asked to stop; raises `EnvoyEnded` if Envoy ends first."""
    exits = asyncio.create_task(envoy.wait_exit(), name="envoy-exit")
    stop_requests = asyncio.create_task(stopping.wait(), name="stop-request")
    try:
        await asyncio.wait({exits, stop_requests}, return_when=asyncio.FIRST_COMPLETED)
        if exits.done() and not stopping.requested:
            raise EnvoyEnded(f"envoy ended by itself: {exits.result().reason}")
    finally:
        for task in (exits, stop_requests):
            task.cancel()
        await asyncio.wait({exits, stop_requests})
