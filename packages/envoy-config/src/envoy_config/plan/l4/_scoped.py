"""The routes and targets of connections that the proxies of a scope have."""

from envoy_config.plan.l4._routes import ConnectionRoutes
from envoy_config.plan.l4._settings import settings_in
from envoy_config.plan.l4._targets import Targets
from mesh_model import EgressListener, MeshModel, Scope


def routes_in(scope: Scope, listener: EgressListener) -> ConnectionRoutes:
    """Return the routes for connections that hold for one of a scope's egress listeners."""
    key = scope.key
    return ConnectionRoutes(listener.virtual_services, namespace=key.namespace, labels=key.labels)


def targets_in(scope: Scope, model: MeshModel) -> Targets:
    """Return what makes the targets of connections in a scope."""
    return Targets(scope.services, settings_in(scope, model))
