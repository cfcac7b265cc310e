"""An agent without Envoy: for a gRPC application that takes its configuration itself.

The application reads a bootstrap file that names the relay's socket and the certificate's files;
the agent keeps all three up.
"""

import logging
from contextlib import AsyncExitStack
from pathlib import Path

import xds_proxy
from mesh_agent._agent import answering, interceptors, status_endpoints
from mesh_agent._config import AgentConfig
from mesh_agent._grpc_bootstrap import files_needed, grpc_bootstrap, write_grpc_bootstrap
from mesh_agent.identity._learned_roots import CONFIGURATION, further_roots, learned_roots
from mesh_agent.identity._workload_secrets import certificates_alone
from mesh_agent.readiness._certificate import watch_identity
from mesh_agent.readiness._files import watch_files
from mesh_agent.status._description import AgentView
from mesh_agent.status._http import http_server
from mesh_lifecycle import Readiness, in_background, stop_signals

log = logging.getLogger(__name__)


async def run_without_envoy(config: AgentConfig, bootstrap_path: Path) -> None:
    """Run the agent until it is told to stop; returns when all of it is down.

    Raises `BootstrapNotWritten`, and the parts' own errors if one can't start.
    """
    async with AsyncExitStack() as stack:
        stopping = stack.enter_context(stop_signals())
        readiness = Readiness(stopping)
        identity_held = readiness.register("certificate")
        files_ready = readiness.register("files")
        view = AgentView(config, readiness)
        await stack.enter_async_context(
            http_server(
                config.status.host,
                config.status.port,
                status_endpoints(config, view, readiness, stopping),
                limits=config.status.limits,
                ports=view.ports,
            )
        )
        learned = view.learned_roots = learned_roots(config.learned_roots)
        secrets = view.secrets = await stack.enter_async_context(
            certificates_alone(config, learned)
        )
        watching = watch_identity(secrets.certificates, identity_held)
        await stack.enter_async_context(in_background(watching, name="identity"))
        names = await stack.enter_async_context(answering(config, view, readiness))
        view.relay = await stack.enter_async_context(
            xds_proxy.relaying(
                config.relay,
                (*interceptors(config, secrets, learned), *names),
                further_roots=further_roots(learned, CONFIGURATION),
            )
        )
        await write_grpc_bootstrap(bootstrap_path, grpc_bootstrap(config))
        await stack.enter_async_context(
            in_background(
                watch_files(files_needed(config, bootstrap_path), files_ready), name="files"
            )
        )
        log.info(
            "agent started without envoy",
            extra={"node_id": config.identity.node_id, "bootstrap": str(bootstrap_path)},
        )
        await stopping.wait()
        log.info("agent stopping", extra={"reason": stopping.reason})
    log.info("agent stopped")
