"""A control plane: Istio YAML in, Envoy configuration over xDS and workload certificates out.

Most people run the command, `mesh-discovery discovery`; this face is for programs that run a
control plane inside themselves, and for tools that read the same configuration.

The parts are loaded when they are first used, so that short commands start fast.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
    from mesh_configfile import Problem
    from mesh_discovery._check import Checked, check_configuration
    from mesh_discovery._config import Address, DiscoveryConfig, SettingsError
    from mesh_discovery._config_error import ConfigError
    from mesh_discovery._server import ControlPlane, running
    from mesh_discovery.serve._distribution import NotDistributed, wait_for_distribution
    from mesh_discovery.serve._free_ports import CannotListenError
    from mesh_discovery.serve._status import (
        StatusDocument,
        StatusError,
        status_notes,
        status_problems,
    )
    from mesh_discovery.settings._tokens import TokenRule
    from mesh_discovery.sources._memory import MemorySource
    from mesh_discovery.sources._reading import Reading, WrongFile
    from mesh_discovery.sources._source import ObjectSource, OnChange
    from mesh_discovery.sources.files._loader import ConfigLoader, Load
    from mesh_model.proxy_configs import StartSettings

__all__ = [
    # run one
    "Address",
    "ControlPlane",
    "DiscoveryConfig",
    "TokenRule",
    "running",
    # where its objects come from, beside files
    "MemorySource",
    "ObjectSource",
    "OnChange",
    "Reading",
    "WrongFile",
    # ask one: what stands in the JSON of its `/debug/status`, in sentences
    "StatusDocument",
    "status_notes",
    "status_problems",
    # wait until what is saved is with every proxy
    "wait_for_distribution",
    # read configuration
    "Checked",
    "ConfigLoader",
    "Load",
    "Problem",
    "StartSettings",
    "check_configuration",
    # errors
    "CannotListenError",
    "ConfigError",
    "NotDistributed",
    "SettingsError",
    "StatusError",
]

_LOADED_WHEN_USED = {
    "Address": "_config",
    "CannotListenError": "serve._free_ports",
    "Checked": "_check",
    "ConfigError": "_config_error",
    "ConfigLoader": "sources.files._loader",
    "ControlPlane": "_server",
    "DiscoveryConfig": "_config",
    "MemorySource": "sources._memory",
    "NotDistributed": "serve._distribution",
    "ObjectSource": "sources._source",
    "OnChange": "sources._source",
    "Reading": "sources._reading",
    "WrongFile": "sources._reading",
    "Load": "sources.files._loader",
    "Problem": "_config_error",
    "SettingsError": "_config",
    "TokenRule": "settings._tokens",
    "StartSettings": "_check",
    "check_configuration": "_check",
    "running": "_server",
    "StatusDocument": "serve._status",
    "StatusError": "serve._status",
    "status_notes": "serve._status",
    "status_problems": "serve._status",
    "wait_for_distribution": "serve._distribution",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
