"""All that watches a running Envoy: whether it is ready, and what is wrong with it besides."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import envoy_supervisor
import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.envoy._listener_changes import ListenerChanges
from mesh_agent.identity._served_certificate import ServedCertificate
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_agent.readiness._envoy import watch_envoy
from mesh_agent.readiness._gateway import GatewayListeners
from mesh_agent.readiness._refusals import describe_refusals
from mesh_agent.readiness._stale import describe_stale
from mesh_lifecycle import Condition, Readiness, in_background


@asynccontextmanager
async def watching(
    envoy: envoy_supervisor.Envoy,
    config: AgentConfig,
    *,
    ready: Condition,
    readiness: Readiness,
    relay: xds_proxy.Relay,
    secrets: OwnSecrets | ForeignSecrets,
    listener_changes: ListenerChanges,
) -> AsyncIterator[ServedCertificate]:
    """Keep `ready` true or false while the block runs, and add what is reported besides.

    Yields the comparison of the certificate that Envoy serves with the newest one.
    """
    needs_listeners = config.ready_needs_listeners
    served = ServedCertificate(
        envoy,
        secrets.certificates if isinstance(secrets, OwnSecrets) else None,
        spiffe_id=str(config.spiffe_id),
    )
    readiness.add_detail("configuration", lambda: describe_refusals(relay.status.types))
    readiness.add_detail("saved_configuration", lambda: describe_stale(relay.status))
    readiness.add_detail("draining", lambda: _draining(envoy))
    readiness.add_detail("envoy_certificate", lambda: served.trouble)
    async with AsyncExitStack() as stack:
        watch = watch_envoy(
            envoy,
            ready,
            poll_s=config.ready_poll_s,
            relay=relay,
            needs_listeners=needs_listeners,
        )
        await stack.enter_async_context(in_background(watch, name="envoy-readiness"))
        await stack.enter_async_context(in_background(served.follow(), name="served-certificate"))
        if config.identity.role == "router":
            gateway = GatewayListeners(envoy)
            readiness.add_detail("gateway", lambda: gateway.trouble)
            stack.enter_context(listener_changes.reporting_to(gateway))
            counting = in_background(gateway.follow(), name="gateway-listeners")
            await stack.enter_async_context(counting)
        yield served


def _draining(envoy: envoy_supervisor.Envoy) -> str | None:
    if envoy.state is envoy_supervisor.EnvoyState.DRAINING:
        return "envoy asks its clients to leave, and serves on"
    return None
