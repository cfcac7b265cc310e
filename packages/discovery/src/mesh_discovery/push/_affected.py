"""Decides by the config keys of a push which proxies it is sent to, and which types it touches."""

from collections.abc import Iterable

from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._changes import ADDRESS, POLICY, SERVICE
from mesh_discovery.push._served_context import ServedContext
from xds_server import Client, ConfigKey, PushRequest


def needs_push(served: ServedContext, client: Client[Proxy], push: PushRequest) -> bool:
    """Tell whether a change could be seen by a client; in doubt it could.

    A service counts as seen if the client sees it in the model that is served or in the one before,
    as it may have been hidden since. A policy concerns every proxy: as clients, all proxies learn
    from it which endpoints take mutual TLS (`plan/_auto_mtls`).

    The xDS server asks this for each connected client at a push (`streams/_needs_push` there).
    """
    if not push.configs_updated:
        return True
    models = served.models
    return any(_concerns(client.context, key, models) for key in push.configs_updated)


def _concerns(proxy: Proxy, key: ConfigKey, models: Iterable[MeshModel]) -> bool:
    if key.kind == SERVICE:
        services = (model.by_key.get((key.namespace, key.name)) for model in models)
        return any(each is not None and each.visible_in(proxy.namespace) for each in services)
    if key.kind == ADDRESS:
        return _is_own(proxy, key)
    return True


def changed_hosts(push: PushRequest) -> frozenset[str] | None:
    """Return the hosts that a push is about; None when it may be about any."""
    if not push.configs_updated or any(key.kind == POLICY for key in push.configs_updated):
        return None
    return frozenset(key.name for key in push.configs_updated if key.kind == SERVICE)


def touches_services(push: PushRequest) -> bool:
    """Tell whether a service changed, or may have."""
    return not push.configs_updated or any(key.kind == SERVICE for key in push.configs_updated)


def touches_own_endpoints(proxy: Proxy, push: PushRequest) -> bool:
    """Tell whether what a proxy's own workload serves changed, or may have."""
    return not push.configs_updated or any(
        key.kind == ADDRESS and _is_own(proxy, key) for key in push.configs_updated
    )


def _is_own(proxy: Proxy, key: ConfigKey) -> bool:
    return key.namespace == proxy.namespace and key.name in proxy.addresses
