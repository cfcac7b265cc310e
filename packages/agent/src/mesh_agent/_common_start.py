"""The start of every agent, with Envoy or without: what comes before the certificate.

Stop signals, readiness, the status server (which says from the beginning why the agent is not
ready), and the roots that were learned in earlier runs.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from mesh_agent._config import AgentConfig
from mesh_agent.identity._learned_roots import learned_roots
from mesh_agent.status._endpoints import StatusEndpoints
from mesh_agent.status._process_metrics import process_age_s
from mesh_identity import LearnedRoots
from mesh_lifecycle import Condition, Readiness, Stopping, in_background, stop_signals
from mesh_listening import Port, out_of_files
from mesh_status_server import AppProbes, http_server

Conditions = Mapping[str, Callable[[Condition], Coroutine[object, object, object]]]
"""Further conditions for being ready, by name: each a service that sets and unsets its condition.

It runs beside the agent. The agent stops when it ends, and fails if it raises an error.
"""


class CommonStart(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that have started before the certificate.

    certificate_ready: the first condition, and not set yet; the agent adds its others.
    endpoints: to be notified when the agent has started.
    status_port: counts the status server's connections.
    learned_roots: None where the agent learns no roots.
    """

    stopping: Stopping
    readiness: Readiness
    certificate_ready: Condition
    endpoints: StatusEndpoints
    status_port: Port
    learned_roots: LearnedRoots | None


@asynccontextmanager
async def common_start(
    config: AgentConfig, conditions: Conditions | None = None
) -> AsyncIterator[CommonStart]:
    """Heed stop signals and serve the status port while the block runs; raises `ListenError`."""
    status = config.status
    with stop_signals() as stopping:
        readiness = Readiness(stopping)
        readiness.add_detail("open_files", out_of_files)
        process_age_s()  # read once, for the status of a process without a descriptor for it
        # Before the status server: a readiness without conditions counts as ready.
        certificate_ready = readiness.register("certificate")
        further = [(readiness.register(name), keep) for name, keep in (conditions or {}).items()]
        endpoints = StatusEndpoints(
            readiness,
            stopping,
            app_probes=AppProbes(
                status.app_probes, host=status.probe_host, status_port=status.port
            ),
            metrics_local_only=status.local_metrics,
        )
        async with AsyncExitStack() as stack:
            _, status_port = await stack.enter_async_context(
                http_server(status.host, status.port, endpoints, limits=status.limits)
            )
            for condition, keep in further:
                service = in_background(keep(condition), name=f"condition {condition.name}")
                await stack.enter_async_context(service)
            yield CommonStart(
                stopping=stopping,
                readiness=readiness,
                certificate_ready=certificate_ready,
                endpoints=endpoints,
                status_port=status_port,
                learned_roots=learned_roots(config.learned_roots),
            )
