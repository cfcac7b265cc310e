"""The service-mesh agent: reads its configuration, wires the parts, and serves its status.

`mesh-agent proxy` is the command; `load_config` and `run` are the same for programs.

Names are loaded when they are first used: every `mesh-agent` command imports this package to
find `proxy`, and only `proxy` needs gRPC and the rest in memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mesh_agent._agent import EnvoyEnded, run
    from mesh_agent._config import AgentConfig, StatusConfig, load_config
    from mesh_agent._flags import Flags
    from mesh_agent._settings import ConfigError

__all__ = [
    # run
    "EnvoyEnded",
    "run",
    # configuration
    "AgentConfig",
    "ConfigError",
    "Flags",
    "StatusConfig",
    "load_config",
]

_HOMES = {
    "EnvoyEnded": "mesh_agent._agent",
    "run": "mesh_agent._agent",
    "AgentConfig": "mesh_agent._config",
    "ConfigError": "mesh_agent._settings",
    "Flags": "mesh_agent._flags",
    "StatusConfig": "mesh_agent._config",
    "load_config": "mesh_agent._config",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
