"""The command line of `mesh-agent proxy`, and the step from it to the agent's own process."""

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import NoReturn

# What has to be there before the process starts; a user's own values win.
_ENVIRONMENT = {
    # glibc gives each of gRPC's threads an arena of its own to grow; two are enough for this load.
    "MALLOC_ARENA_MAX": "2",
    # gRPC's core reports on stderr every peer that leaves and every handshake that fails; the agent
    # logs what matters of it.
    "GRPC_VERBOSITY": "NONE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line said; empty and zero mean not given.

    role: `sidecar` or `router`.
    proxy_log_level: Envoy's level, with `component:level` items after it if wanted.
    log_levels: the agent's own, see `mesh_lifecycle.configure_logging`.
    version: the agent's, as the control plane is told it.
    """

    role: str = "sidecar"
    domain: str = ""
    mesh_config: str = "./etc/istio/config/mesh"
    service_cluster: str = ""
    proxy_log_level: str = "warning"
    proxy_component_log_level: str = ""
    concurrency: int = 0
    envoy_path: str = ""
    log_levels: str = "info"
    version: str = "unknown"
    log_as_json: bool = False


def replace_this_process(flags: Flags) -> NoReturn:
    """Become the agent's process; keeps pid, directory, environment and open files."""
    arguments = [sys.executable, "-m", "mesh_agent._process", json.dumps(asdict(flags))]
    os.execve(sys.executable, arguments, {**_ENVIRONMENT, **os.environ})  # noqa: S606 - no shell wanted
