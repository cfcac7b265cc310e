"""The values of the command line of `mesh-agent proxy`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags of the command line; empty and zero mean not given.

    role: `sidecar` or `router`.
    proxy_log_level: Envoy's level, with `component:level` items after it if wanted.
    log_levels: the agent's own, see `mesh_lifecycle.configure_logging`.
    version: the agent's, which the control plane is told.
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
