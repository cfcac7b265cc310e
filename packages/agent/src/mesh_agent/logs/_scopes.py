"""Istio's log scopes, and the loggers of this agent that log the same."""

from mesh_lifecycle import LogScopes

ENVOY = "envoy_supervisor.envoy"
"""Envoy's own lines. Envoy's own level decides which of them there are."""

# The name of a logger is a scope too, so what Istio has no scope for is named by its package.
_SCOPES = {
    "agent": ("mesh_agent", "istio_settings", "mesh_lifecycle", "mesh_listening"),
    "ca": ("certclient.authorities",),
    "cache": ("certclient.rotation", "certclient.feed", "certclient.files"),
    "citadelclient": ("certclient.authorities",),
    "dns": ("mesh_dnsproxy", "mesh_agent.dns"),
    "envoy_supervisor": ("envoy_supervisor",),
    "grpc": ("grpc",),
    "healthcheck": ("mesh_agent.health", "mesh_probes"),
    "probes": ("mesh_status_server", "mesh_agent.status"),
    "sds": ("mesh_sds", "xds_server", "mesh_agent.identity"),
    "security": ("certclient", "mesh_identity"),
    "stsserver": ("mesh_token_exchange", "mesh_agent.token_exchange"),
    "token": ("mesh_token_exchange", "mesh_agent.token_exchange", "mesh_identity"),
    "wasm": ("wasm_modules", "mesh_agent.wasm"),
    "xdsproxy": ("xds_proxy", "xds_adapter"),
    # Scopes of Istio's agent for what this one does not do.
    "gcecred": (),
    "googleca": (),
}

SCOPES = LogScopes(_SCOPES, fixed=(ENVOY,))
