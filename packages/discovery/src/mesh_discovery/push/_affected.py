"""Decides by the config keys of a push which proxies it is sent to, and which types it touches."""

from collections.abc import Iterable
from typing import NamedTuple

from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._changes import ADDRESS, POLICY, RULES, SECRET, SERVICE
from mesh_discovery.push._served_context import ServedContext
from xds_server import Client, ConfigKey, PushRequest

_OF_ROUTERS = frozenset({SECRET, "Gateway"})
"""The kinds that sidecars are given nothing of."""


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
    if key.kind in _OF_ROUTERS:
        return not proxy.is_sidecar
    return True


class _Subject(NamedTuple):
    """The config keys of a push, sorted out once for all clients."""

    push: PushRequest
    hosts: frozenset[str] | None
    services: bool
    addresses: frozenset[tuple[str, str]]


class _Subjects:
    """Sorts out the keys of the last push; hundreds of clients ask about it one after the other."""

    def __init__(self) -> None:
        self._last: _Subject | None = None

    def of(self, push: PushRequest) -> _Subject:
        last = self._last
        if last is None or last.push is not push:
            last = self._last = _subject(push)
        return last


_SUBJECTS = _Subjects()


def _subject(push: PushRequest) -> _Subject:
    keys = push.configs_updated
    hosts = None
    if keys and not any(key.kind == POLICY or key.kind in RULES for key in keys):
        hosts = frozenset(key.name for key in keys if key.kind == SERVICE)
    return _Subject(
        push,
        hosts,
        services=any(key.kind == SERVICE or key.kind in RULES for key in keys),
        addresses=frozenset((key.namespace, key.name) for key in keys if key.kind == ADDRESS),
    )


def changed_hosts(push: PushRequest) -> frozenset[str] | None:
    """Return the hosts that a push is about; None when it may be about any."""
    return _SUBJECTS.of(push).hosts


def touches_services(push: PushRequest) -> bool:
    """Tell whether a service or a rule about traffic changed, or may have."""
    return not push.configs_updated or _SUBJECTS.of(push).services


def touches_own_endpoints(proxy: Proxy, push: PushRequest) -> bool:
    """Tell whether what a proxy's own workload serves changed, or may have."""
    if not push.configs_updated:
        return True
    changed = _SUBJECTS.of(push).addresses
    return any((proxy.namespace, address) in changed for address in proxy.addresses)


def _is_own(proxy: Proxy, key: ConfigKey) -> bool:
    return key.namespace == proxy.namespace and key.name in proxy.addresses
