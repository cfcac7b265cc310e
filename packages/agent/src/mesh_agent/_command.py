"""`mesh-agent proxy`: reads the flags and becomes the agent's process.

Flags and their spelling are Istio's. Unknown ones are passed over, because injection templates
outlive the agents they were written for.
"""

import json
import os
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, NoReturn

import typer

from mesh_agent.config._flags import Flags

# These must be set before the process starts; a user's own values win.
_ENVIRONMENT = {
    # glibc gives each of gRPC's threads an arena of its own to grow; two are enough for this load.
    "MALLOC_ARENA_MAX": "2",
    # gRPC's core reports on stderr every peer that leaves and every handshake that fails; the agent
    # logs what matters of it.
    "GRPC_VERBOSITY": "NONE",
}


def register(app: typer.Typer) -> None:
    """Add `proxy` to the `mesh-agent` command."""
    app.command(
        "proxy",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(proxy)


def proxy(
    role: Annotated[str, typer.Argument(metavar="[sidecar|router]")] = "sidecar",
    *,
    domain: Annotated[str, typer.Option("--domain", help="DNS domain of the workload.")] = "",
    mesh_config: Annotated[
        str, typer.Option("--meshConfig", help="Mesh config file; it may be absent.")
    ] = "./etc/istio/config/mesh",
    service_cluster: Annotated[str, typer.Option("--serviceCluster", hidden=True)] = "",
    proxy_log_level: Annotated[
        str, typer.Option("--proxyLogLevel", help="Envoy's log level.")
    ] = "warning",
    proxy_component_log_level: Annotated[
        str, typer.Option("--proxyComponentLogLevel", hidden=True)
    ] = "",
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=0, help="Envoy's worker threads; 0: one a core.")
    ] = 0,
    envoy_path: Annotated[
        str, typer.Option("--envoy-path", help="The Envoy to run; also ENVOY_PATH.")
    ] = "",
    log_output_level: Annotated[
        str, typer.Option("--log_output_level", help="Level, or list of logger:level.")
    ] = "info",
    log_as_json: Annotated[
        bool, typer.Option("--log_as_json", help="Log JSON, one object a line.")
    ] = False,
) -> None:
    """Run an Envoy beside a workload, with its certificate and its configuration."""
    replace_this_process(
        Flags(
            role=role,
            domain=domain,
            mesh_config=mesh_config,
            service_cluster=service_cluster,
            proxy_log_level=proxy_log_level,
            proxy_component_log_level=proxy_component_log_level,
            concurrency=concurrency,
            envoy_path=envoy_path,
            log_levels=log_output_level,
            log_as_json=log_as_json,
            version=_version(),
        )
    )


def _version() -> str:
    try:
        return version("mesh-agent")
    except PackageNotFoundError:
        return "unknown"


def replace_this_process(flags: Flags) -> NoReturn:
    """Become the agent's process; keeps pid, directory, environment and open files."""
    arguments = [sys.executable, "-m", "mesh_agent._process", json.dumps(asdict(flags))]
    os.execve(sys.executable, arguments, {**_ENVIRONMENT, **os.environ})  # noqa: S606 - no shell wanted
