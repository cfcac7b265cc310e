"""An agent without Envoy: for a gRPC application that takes its configuration itself.

The application reads a bootstrap file that names the relay's socket and the certificate's files;
the agent keeps all three up.
"""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

import certclient
import envoy_supervisor
import xds_proxy
from envoy_supervisor import JSON
from mesh_agent._agent import answering, interceptors, status_endpoints
from mesh_agent._config import AgentConfig
from mesh_agent._http import http_server
from mesh_agent._identity_watch import watch_identity
from mesh_agent._root_learning import CONFIGURATION, further_roots, learned_roots
from mesh_agent._view import AgentView
from mesh_agent._workload_secrets import certificates_alone
from mesh_filewatch import ReadTimedOut, run_aside, watching
from mesh_lifecycle import Condition, Readiness, in_background, stop_signals

log = logging.getLogger(__name__)

_MODE = 0o644
_INBOUND_LISTENER = "xds.istio.io/grpc/lds/inbound/%s"


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
        await _write_aside(bootstrap_path, grpc_bootstrap(config))
        await stack.enter_async_context(
            in_background(_watch_files(_needed(config, bootstrap_path), files_ready), name="files")
        )
        log.info(
            "agent started without envoy",
            extra={"node_id": config.identity.node_id, "bootstrap": str(bootstrap_path)},
        )
        await stopping.wait()
        log.info("agent stopping", extra={"reason": stopping.reason})
    log.info("agent stopped")


class BootstrapNotWritten(Exception):
    """The gRPC bootstrap file can't be written."""


def grpc_bootstrap(config: AgentConfig) -> Mapping[str, JSON]:
    """Make the bootstrap of gRPC's own xDS clients; gRFC A27, with Istio's names in it."""
    envoy = config.envoy.bootstrap
    if not isinstance(envoy, envoy_supervisor.BootstrapConfig):
        raise TypeError("a bootstrap of the user's own says nothing of the node")
    locality: dict[str, JSON] = {
        name: text for name, text in asdict(envoy.locality).items() if text
    }
    bootstrap: dict[str, JSON] = {
        "xds_servers": [
            {
                "server_uri": f"unix://{config.relay.socket_path.absolute()}",
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {
            "id": envoy.node_id,
            "metadata": {**envoy.node_metadata, "GENERATOR": "grpc"},
            "locality": locality,
        },
        "server_listener_resource_name_template": _INBOUND_LISTENER,
    }
    if config.output is not None:
        files = certclient.FilesConfig.in_directory(config.output.directory.absolute())
        bootstrap["certificate_providers"] = {
            "default": {
                "plugin_name": "file_watcher",
                "config": {
                    "certificate_file": str(files.certificate_path),
                    "private_key_file": str(files.key_path),
                    "ca_certificate_file": str(files.root_path),
                    "refresh_interval": "900s",
                },
            }
        }
    return bootstrap


async def _write_aside(path: Path, bootstrap: Mapping[str, JSON]) -> None:
    try:
        await run_aside(partial(_write, path, bootstrap), about=path)
    except ReadTimedOut as error:
        raise BootstrapNotWritten(f"{path} can't be written: {error.strerror}") from error


def _write(path: Path, bootstrap: Mapping[str, JSON]) -> None:
    import tempfile  # here: it brings the archive formats, and an agent with an Envoy needs neither

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(bootstrap, file, indent=2)
        Path(name).chmod(_MODE)
        Path(name).replace(path)
    except OSError as error:
        raise BootstrapNotWritten(f"{path} can't be written: {error.strerror}") from error


def _needed(config: AgentConfig, bootstrap_path: Path) -> tuple[Path, ...]:
    """The files without which the application can't start."""
    if config.output is None:
        return (bootstrap_path,)
    files = certclient.FilesConfig.in_directory(config.output.directory)
    return bootstrap_path, files.certificate_path, files.key_path, files.root_path


async def _watch_files(paths: tuple[Path, ...], ready: Condition) -> None:
    async with watching() as watch:
        while True:
            await watch.follow(paths)
            faults = [fault for path in paths if (fault := await _fault(path)) is not None]
            if faults:
                ready.unset(", ".join(faults))
            else:
                ready.set()
            await watch.wait()


async def _fault(path: Path) -> str | None:
    try:
        there = await run_aside(path.is_file, about=path, key=("is file", path))
    except ReadTimedOut as error:
        return str(error)
    return None if there else f"{path} not there"
