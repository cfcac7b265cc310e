"""`mesh-agent proxy`: flags in, exit status out.

Flags and their spelling are Istio's. Unknown ones are passed over, because injection templates
outlive the agents they were written for.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mesh_agent._config import Flags


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
    ] = "default:info",
    log_as_json: Annotated[
        bool, typer.Option("--log_as_json", help="Log JSON, one object a line.")
    ] = False,
) -> None:
    """Run an Envoy beside a workload, with its certificate and its configuration."""
    from mesh_agent._config import Flags
    from mesh_lifecycle import LogLevelError, configure_logging

    try:
        configure_logging(log_output_level, as_json=log_as_json, stream=sys.stdout)
    except LogLevelError as error:
        sys.exit(_fail([f"--log_output_level: {error}"]))
    flags = Flags(
        role=role,
        domain=domain,
        mesh_config=mesh_config,
        service_cluster=service_cluster,
        proxy_log_level=proxy_log_level,
        proxy_component_log_level=proxy_component_log_level,
        concurrency=concurrency,
        envoy_path=envoy_path,
    )
    sys.exit(_run(flags))


def _run(flags: "Flags") -> int:
    import uvloop

    import certclient
    import envoy_supervisor
    import mesh_sds
    import xds_proxy
    from mesh_agent import _agent, _config, _http, _settings

    try:
        config = _config.load_config(
            flags,
            environ=os.environ,
            directory=Path(),
            version=_version(),
        )
    except _settings.ConfigError as error:
        return _fail(error.problems)
    gc.collect()
    gc.freeze()  # what is imported by now stays; the collector need not look at it again
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_agent.run(config))
    except (
        _agent.EnvoyEnded,
        _http.ListenError,
        certclient.CertClientError,
        envoy_supervisor.EnvoySupervisorError,
        mesh_sds.SdsError,
        xds_proxy.XdsProxyError,
    ) as error:
        return _fail([str(error)])
    return 0


def _version() -> str:
    try:
        return distribution_version("mesh-agent")
    except PackageNotFoundError:
        return "unknown"


def _fail(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"mesh-agent: {problem}\n")
    return 1
