"""Decides by the config keys of a push which proxies it is sent to, and which types it touches."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from envoy_config import OF_PATCHES, OF_RULES, OF_WORKLOADS, Changed, Proxy, workload_of
from mesh_discovery.push._served_context import ServedContext
from mesh_model import MeshModel, RuleName, Scope
from xds_server import Client, ConfigKey, PushRequest


def needs_push(served: ServedContext, client: Client[Proxy], push: PushRequest) -> bool:
    """Return whether a change could be seen by a client; in doubt it could.

    A service counts as seen if the client sees it in the model that is served or in the one before,
    as it may have been hidden since. A PeerAuthentication concerns every proxy: as clients,
    all proxies learn from it which endpoints take mutual TLS (`plan/_auto_mtls`).

    The xDS server asks this for each connected client at a push (`streams/_needs_push` there).
    """
    if not push.configs_updated:
        return True
    proxy, models, subject = client.context, served.models, _SUBJECTS.of(push)
    return any(_concerns(proxy, key, models) for key in subject.others) or any(
        _is_selected(proxy, subject.of_workloads, model) for model in models
    )


def _concerns(proxy: Proxy, key: ConfigKey, models: Iterable[MeshModel]) -> bool:
    if key.kind == Changed.SERVICE:
        services = (model.by_key.get((key.namespace, key.name)) for model in models)
        return any(each is not None and each.visible_in(proxy.namespace) for each in services)
    if key.kind == Changed.ADDRESS:
        return _is_own(proxy, key)
    if key.kind == Changed.GATEWAY:
        return not proxy.is_sidecar
    if key.kind == Changed.SECRET and proxy.is_sidecar:
        return _may_have_secrets(proxy, key, models)
    return True


def _is_selected(proxy: Proxy, rules: Mapping[str, Sequence[RuleName]], model: MeshModel) -> bool:
    """Return whether one of some rules, by their namespaces, is for a proxy's workload."""
    spaces = rules.keys() & {proxy.namespace, model.mesh_config.root_namespace}
    if not spaces:
        return False
    workload = workload_of(proxy, model)
    names = (name for space in spaces for name in rules[space])
    return any(model.workload_rules.applies(name, workload) for name in names)


def _may_have_secrets(proxy: Proxy, key: ConfigKey, models: Iterable[MeshModel]) -> bool:
    """Return whether rules name Secrets of a namespace for a sidecar."""
    return key.namespace == proxy.namespace and any(
        model.destination_rules.credentials_for(proxy.namespace, proxy.labels) for model in models
    )


class _Subject(NamedTuple):
    """The config keys of a push, sorted out once for all clients."""

    push: PushRequest
    hosts: frozenset[str] | None
    kinds: frozenset[str]
    addresses: frozenset[tuple[str, str]]
    of_workloads: Mapping[str, Sequence[RuleName]]
    """The rules for workloads, by their namespaces."""
    others: Sequence[ConfigKey]
    """The keys that each concern some proxies, but for those rules."""


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
    kinds = frozenset(key.kind for key in keys)
    hosts = None
    if keys and not kinds & {
        Changed.PEER_AUTHENTICATION,
        Changed.SIDECAR,
        Changed.PATCHED_CLUSTERS,
    }:
        hosts = frozenset(
            key.name for key in keys if key.kind in (Changed.SERVICE, Changed.RULED_HOST)
        )
    of_workloads: dict[str, list[RuleName]] = {}
    for key in keys:
        if key.kind in OF_WORKLOADS:
            name = key.kind, key.namespace, key.name
            of_workloads.setdefault(key.namespace, []).append(name)
    return _Subject(
        push,
        hosts,
        kinds,
        addresses=frozenset(
            (key.namespace, key.name) for key in keys if key.kind == Changed.ADDRESS
        ),
        of_workloads=of_workloads,
        # What EnvoyFilters patch is said beside these.
        others=tuple(key for key in keys if key.kind not in OF_WORKLOADS | OF_PATCHES),
    )


def changed_hosts(push: PushRequest) -> frozenset[str] | None:
    """Return the hosts that a push is about; None when it may be about any."""
    return _SUBJECTS.of(push).hosts


def touches_routes(push: PushRequest) -> bool:
    """Return whether a service or a rule about traffic changed, or may have."""
    return _touches(push, OF_RULES | {Changed.SERVICE, Changed.PATCHED_ROUTES})


def touches_rules(push: PushRequest) -> bool:
    """Return whether a rule about traffic changed, or may have."""
    return _touches(push, OF_RULES)


def touches_extensions(push: PushRequest) -> bool:
    """Return whether a change may touch the extensions that proxies ask for by name."""
    return _touches(push, {Changed.PATCHED_EXTENSIONS})


def touches_listeners(push: PushRequest) -> bool:
    """Return whether a change may touch listeners; most rules about requests do not."""
    return _touches(push, _OF_LISTENERS)


def touches_known_services(push: PushRequest, scope: Scope) -> bool:
    """Return whether proxies of a scope may know other services now, or know them otherwise."""
    kinds = {Changed.SERVICE, Changed.SIDECAR}
    if scope.sidecar is not None:
        kinds.add(Changed.VIRTUAL_SERVICE)  # it imports the services that it leads to
    return _touches(push, kinds)


def touches_clusters(push: PushRequest, scope: Scope) -> bool:
    """Return whether a change may touch the clusters of a scope's proxies."""
    return touches_known_services(push, scope) or _touches(push, _OF_CLUSTERS)


_OF_CLUSTERS = frozenset(
    {Changed.PEER_AUTHENTICATION, Changed.RULED_HOST, Changed.GATEWAY, Changed.PATCHED_CLUSTERS}
)
_OF_LISTENERS = frozenset(
    {
        Changed.SERVICE,
        Changed.PEER_AUTHENTICATION,
        Changed.SIDECAR,
        Changed.GATEWAY,
        Changed.CONNECTIONS,
        Changed.PATCHED_LISTENERS,
    }
) | (OF_WORKLOADS - {Changed.ENVOY_FILTER})


def _touches(push: PushRequest, kinds: AbstractSet[str]) -> bool:
    return not push.configs_updated or not kinds.isdisjoint(_SUBJECTS.of(push).kinds)


def touches_own_endpoints(proxy: Proxy, push: PushRequest) -> bool:
    """Return whether what a proxy's own workload serves changed, or may have."""
    if not push.configs_updated:
        return True
    changed = _SUBJECTS.of(push).addresses
    return any((proxy.namespace, address) in changed for address in proxy.addresses)


def _is_own(proxy: Proxy, key: ConfigKey) -> bool:
    return key.namespace == proxy.namespace and key.name in proxy.addresses
