"""The agent's own process, from its flags to its exit status.

`mesh-agent proxy` becomes it by a call. A command that has loaded the library that reads command
lines replaces itself by `python -m mesh_agent._process FLAGS`, where FLAGS is a JSON object: the
library would stay in memory beside every workload, 8 MB that no other process shares.
"""

import asyncio
import faulthandler
import gc
import logging
import os
import resource
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import uvloop

import certclient
import envoy_supervisor
import mesh_sds
import mesh_status_server
import xds_proxy
from istio_settings import SettingWithoutEffect
from mesh_agent._config import AgentConfig, load_config
from mesh_agent._envoy_start import envoy_started
from mesh_agent._errors import (
    ApplicationNotStarted,
    BootstrapNotWritten,
    ConfigError,
    EnvoyEnded,
    ListenError,
    NoSuchProcess,
    StopOverdue,
)
from mesh_agent.config._flags import Flags
from mesh_agent.identity._gateway_credentials import with_gateway_credentials
from mesh_agent.logs._reopening import survive_reopen_signal
from mesh_agent.logs._setup import report, start_agent_logging
from mesh_lifecycle import ServiceEnded
from mesh_listening import raise_open_files_limit

log = logging.getLogger("mesh_agent")  # the name of this module may be __main__

_AFTER_DEADLINE_S = 5.0


def main(flags: Flags) -> int:
    """Run the agent until it is asked to stop; returns the exit status."""
    raise_open_files_limit()
    survive_reopen_signal()
    fail = partial(_fail, as_json=flags.log_as_json)
    if problems := start_agent_logging(flags):
        return fail(problems)
    try:
        config = load_config(flags, environ=os.environ, directory=Path(), version=flags.version)
    except ConfigError as error:
        return fail(error.problems)
    _limit_core_files(allowed=config.core_files)
    _log_without_effect(config.effective.without_effect)
    # As injection would have it; Envoy and the libraries read some of them.
    os.environ.update(config.metadata_variables)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(config))
    except ApplicationNotStarted as error:
        return fail([str(error)], exit_status=error.exit_status)
    except (
        BootstrapNotWritten,
        EnvoyEnded,
        ListenError,
        NoSuchProcess,
        ServiceEnded,
        StopOverdue,
        certclient.CertClientError,
        envoy_supervisor.EnvoySupervisorError,
        mesh_sds.SdsError,
        mesh_status_server.ListenError,
        xds_proxy.XdsProxyError,
    ) as error:
        return fail([str(error)])
    except Exception as error:
        # The boundary of the process: a mistake in the agent has the shape of all others.
        log.exception("the agent failed")
        return fail([f"the agent failed by a mistake of its own: {type(error).__name__}: {error}"])


async def _run(config: AgentConfig) -> int:
    if config.grpc_bootstrap is not None:
        from mesh_agent._proxyless import run_without_envoy

        _keep_what_is_loaded()
        return await run_without_envoy(config, config.grpc_bootstrap, stop_began=_end_when_overdue)
    config = await with_gateway_credentials(config)
    async with envoy_started(config) as started:
        from mesh_agent._agent import run_beside  # gRPC and all parts, while Envoy loads itself

        _keep_what_is_loaded()
        return await run_beside(started, config, stop_began=_end_when_overdue)


def _keep_what_is_loaded() -> None:
    """Modules imported by now stay; the collector, off until now, need not look at them again."""
    gc.freeze()
    gc.enable()


def _limit_core_files(*, allowed: bool) -> None:
    """Forbid core files, which would hold the workload's key; the limit counts for Envoy too."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard) if allowed else (0, 0))


def _log_without_effect(settings: Sequence[SettingWithoutEffect]) -> None:
    for each in settings:
        level = logging.INFO if each.quiet else logging.WARNING
        facts = {"setting": each.setting, "reason": each.reason}
        log.log(level, "a setting has no effect", extra=facts)


def _end_when_overdue(limit_s: float) -> None:
    """End this process some seconds after the deadline of the stop, whatever it is doing then.

    Where it hangs is written to stderr. The kernel ends Envoy with it.
    """
    faulthandler.dump_traceback_later(limit_s + _AFTER_DEADLINE_S, exit=True)


def _fail(problems: Sequence[str], *, as_json: bool, exit_status: int = 1) -> int:
    report(problems, as_json=as_json)
    return exit_status


if __name__ == "__main__":
    sys.exit(main(Flags.from_json(sys.argv[1])))
