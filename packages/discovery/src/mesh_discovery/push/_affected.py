"""Which proxies a push concerns, and which types of resources: decided by its config keys."""

from collections.abc import Iterable

from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._changes import ADDRESS, POLICY, SERVICE
from xds_server import ConfigKey, PushRequest


def concerns(proxy: Proxy, push: PushRequest, models: Iterable[MeshModel]) -> bool:
    """Tell whether a proxy could see a change; in doubt it could.

    models: the one that is served, and the one before, in which the proxy may have seen services
    that are hidden from it now.

    A policy concerns every proxy: clients ask it which endpoints take mutual TLS.
    """
    if not push.configs_updated:
        return True
    models = tuple(models)
    return any(_concerns(proxy, key, models) for key in push.configs_updated)


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
