"""The agent's own process: `python -m mesh_agent._process FLAGS`, where FLAGS is a JSON object.

`mesh-agent proxy` replaces itself by this, so that the library that reads command lines is not in
memory beside every workload for as long as it runs; see docs/decisions/0002-lean-process.md.
"""

import asyncio
import gc
import json
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

import certclient
import envoy_supervisor
import mesh_sds
import xds_proxy
from mesh_agent._agent import run
from mesh_agent._config import AgentConfig, load_config
from mesh_agent._errors import BootstrapNotWritten, ConfigError, EnvoyEnded, ListenError
from mesh_agent._proxyless import run_without_envoy
from mesh_agent.config._flags import Flags
from mesh_agent.identity._gateway_credentials import with_gateway_credentials
from mesh_lifecycle import LogLevelError, configure_logging
from mesh_listening import raise_open_files_limit


def main(flags: Flags) -> int:
    """Run the agent until it is told to stop; returns the exit status."""
    # A core file would hold the workload's key, Envoy's too: it inherits the limit.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    raise_open_files_limit()
    try:
        configure_logging(flags.log_levels, as_json=flags.log_as_json, stream=sys.stdout)
        config = load_config(flags, environ=os.environ, directory=Path(), version=flags.version)
    except LogLevelError as error:
        return _fail([f"--log_output_level: {error}"])
    except ConfigError as error:
        return _fail(error.problems)
    gc.collect()
    gc.freeze()  # what is imported by now stays; the collector need not look at it again
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(config))
    except (
        BootstrapNotWritten,
        EnvoyEnded,
        ListenError,
        certclient.CertClientError,
        envoy_supervisor.EnvoySupervisorError,
        mesh_sds.SdsError,
        xds_proxy.XdsProxyError,
    ) as error:
        return _fail([str(error)])
    return 0


async def _run(config: AgentConfig) -> None:
    if config.grpc_bootstrap is not None:
        await run_without_envoy(config, config.grpc_bootstrap)
    else:
        await run(await with_gateway_credentials(config))


def _fail(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"mesh-agent: {problem}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Flags(**json.loads(sys.argv[1]))))
