"""The settings of connections, by what the DestinationRules of a scope say of their services."""

from envoy_config.plan._traffic_policy import tcp_policy
from envoy_config.plan.l4._chains import Tunnel
from envoy_config.plan.l4._targets import ConnectionSettings, SettingsOf
from mesh_model import MeshModel, Scope, Service


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
