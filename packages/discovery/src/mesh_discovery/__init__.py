"""A control plane: Istio YAML in, Envoy configuration over xDS and workload certificates out.

Most people run the command, `mesh-discovery discovery`; this face is for programs that run a
control plane inside themselves, and for tools that read the same configuration.
"""

from mesh_discovery._config import Address, DiscoveryConfig, SettingsError, TokenRule
from mesh_discovery._loader import ConfigLoader, Load, Snapshot
from mesh_discovery._ports_free import CannotListenError
from mesh_discovery._problems import ConfigError, Problem
from mesh_discovery._server import ControlPlane, running

__all__ = [
    # run one
    "Address",
    "ControlPlane",
    "DiscoveryConfig",
    "TokenRule",
    "running",
    # read configuration
    "ConfigLoader",
    "Load",
    "Problem",
    "Snapshot",
    # errors
    "CannotListenError",
    "ConfigError",
    "SettingsError",
]
