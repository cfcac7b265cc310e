"""The settings of connections, by what the DestinationRules of a scope say of their services."""

from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._scope import Scope
from mesh_discovery.model._services import Service
from mesh_discovery.plan._traffic_policy import tcp_policy
from mesh_discovery.plan.l4._chains import Tunnel
from mesh_discovery.plan.l4._targets import ConnectionSettings, SettingsOf


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
