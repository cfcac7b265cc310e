"""The service-mesh agent: reads its configuration, wires the parts, and serves its status.

`mesh-agent proxy` is the command; `load_config` and `run` are the same for programs.

Names are loaded when they are first used: every `mesh-agent` command imports this package to
find `proxy`, and only `proxy` needs gRPC and the rest in memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mesh_agent._agent import run
    from mesh_agent._config import AgentConfig, load_config
    from mesh_agent._errors import ConfigError, EnvoyEnded
    from mesh_agent.config._flags import Flags
    from mesh_agent.config._status_server import StatusConfig

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

_LOADED_WHEN_USED = {
    "EnvoyEnded": "_errors",
    "run": "_agent",
    "AgentConfig": "_config",
    "ConfigError": "_errors",
    "Flags": "config._flags",
    "StatusConfig": "config._status_server",
    "load_config": "_config",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
