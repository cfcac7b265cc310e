"""The routes, targets and settings of connections that the proxies of a scope have."""

from envoy_config.plan._traffic_policy import tcp_policy
from envoy_config.plan.l4._chains import Tunnel
from envoy_config.plan.l4._routes import ConnectionRoutes
from envoy_config.plan.l4._targets import ConnectionSettings, SettingsOf, Targets
from mesh_model import EgressListener, MeshModel, Scope, Service


def routes_in(scope: Scope, listener: EgressListener) -> ConnectionRoutes:
    """Return the routes for connections that hold for one of a scope's egress listeners."""
    key = scope.key
    return ConnectionRoutes(listener.virtual_services, namespace=key.namespace, labels=key.labels)


def targets_in(scope: Scope, model: MeshModel) -> Targets:
    """Return what makes the targets of connections in a scope."""
    return Targets(scope.services, settings_in(scope, model))


def settings_in(scope: Scope, model: MeshModel) -> SettingsOf:
    """Return the function that finds the settings of a service's port and subset in a scope."""

    def find(service: Service, port: int, subset: str) -> ConnectionSettings:
        policy = tcp_policy(scope.rule(service), port, subset, model)
        tunnel = policy.tunnel
        return ConnectionSettings(
            idle_timeout=policy.idle_timeout,
            max_duration=policy.max_connection_duration,
            by_source_address=policy.hashes_source_ip,
            tunnel=Tunnel(
                host=tunnel.target_host,
                port=tunnel.target_port,
                post=tunnel.protocol.upper() == "POST",
            )
            if tunnel is not None
            else None,
        )

    return find
