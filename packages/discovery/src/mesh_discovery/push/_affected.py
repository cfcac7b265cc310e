"""Decides by the config keys of a push which proxies it is sent to, and which types it touches."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from envoy_config import Proxy, PushContext, has_pull_secrets, workload_of
from envoy_config.changes import (
    BY_HOST,
    ENDPOINTS_ALONE,
    EVERYTHING,
    OF_PATCHES,
    OF_WORKLOADS,
    TOUCHES,
    Changed,
    Part,
    Touches,
)
from mesh_discovery.push._served_context import ServedContext
from mesh_model import MeshModel, RuleName
from xds_server import Client, ConfigKey, PushRequest


def needs_push(served: ServedContext, client: Client[Proxy], push: PushRequest) -> bool:
    """Return whether a change could be seen by a client; in doubt it could.

    A service counts as seen if the client sees it in the model that is served or in the one before,
    as it may have been hidden since.

    The xDS server asks this for each connected client at a push (`streams/_needs_push` there).
    """
    if not push.configs_updated:
        return True
    proxy, models, subject = client.context, served.models, _SUBJECTS.get(push)
    return any(_concerns(proxy, key, models) for key in subject.others) or any(
        _is_selected(proxy, subject.of_workloads, model) for model in models
    )


def _concerns(proxy: Proxy, key: ConfigKey, models: Iterable[MeshModel]) -> bool:
    if key.kind == Changed.SERVICE:
        services = (model.by_key.get((key.namespace, key.name)) for model in models)
        return any(each is not None and each.visible_in(proxy.namespace) for each in services)
    if key.kind == Changed.ADDRESS:
        return _is_own(proxy, key)
    if key.kind == Changed.SECRET and proxy.is_sidecar:
        return _may_have_secrets(proxy, key, models)
    row = TOUCHES.get(key.kind, EVERYTHING)
    return bool(row.for_proxy(proxy) or row.importing)


def _is_selected(proxy: Proxy, rules: Mapping[str, Sequence[RuleName]], model: MeshModel) -> bool:
    """Return whether one of some rules, by their namespaces, is for a proxy's workload."""
    spaces = rules.keys() & {proxy.namespace, model.mesh_config.root_namespace}
    if not spaces:
        return False
    workload = workload_of(proxy, model)
    names = (name for space in spaces for name in rules[space])
    return any(model.workload_rules.applies(name, workload) for name in names)


def _may_have_secrets(proxy: Proxy, key: ConfigKey, models: Iterable[MeshModel]) -> bool:
    """Return whether rules or extensions name Secrets of a namespace for a sidecar."""
    return any(
        (
            key.namespace == proxy.namespace
            and model.destination_rules.credentials_for(proxy.namespace, proxy.labels)
        )
        or has_pull_secrets(proxy, model, key.namespace)
        for model in models
    )


class _Subject(NamedTuple):
    """The config keys of a push, sorted out once for all clients."""

    push: PushRequest
    touched: Touches
    of_any_host: Touches
    """What the keys touch that do not say the hosts."""
    hosts: frozenset[str]
    addresses: frozenset[tuple[str, str]]
    of_workloads: Mapping[str, Sequence[RuleName]]
    """The rules for workloads, by their namespaces."""
    others: Sequence[ConfigKey]
    """The keys that each concern some proxies, but for those rules."""


class _Subjects:
    """Sorts out the keys of the last push; hundreds of clients ask about it one after the other."""

    def __init__(self) -> None:
        self._last: _Subject | None = None

    def get(self, push: PushRequest) -> _Subject:
        last = self._last
        if last is None or last.push is not push:
            last = self._last = _subject(push)
        return last


_SUBJECTS = _Subjects()


def _subject(push: PushRequest) -> _Subject:
    keys = push.configs_updated
    kinds = {key.kind for key in keys} - {Changed.ADDRESS}
    of_workloads: dict[str, list[RuleName]] = {}
    for key in keys:
        if key.kind in OF_WORKLOADS:
            name = key.kind, key.namespace, key.name
            of_workloads.setdefault(key.namespace, []).append(name)
    return _Subject(
        push,
        touched=_union(kinds, incremental=push.incremental),
        of_any_host=_union(kinds - BY_HOST, incremental=push.incremental),
        hosts=frozenset(key.name for key in keys if key.kind in BY_HOST),
        addresses=frozenset(
            (key.namespace, key.name) for key in keys if key.kind == Changed.ADDRESS
        ),
        of_workloads=of_workloads,
        # What EnvoyFilters patch is said beside these.
        others=tuple(
            key for key in keys if key.kind not in OF_WORKLOADS and key.kind not in OF_PATCHES
        ),
    )


def _union(kinds: Iterable[str], *, incremental: bool) -> Touches:
    rows = (
        ENDPOINTS_ALONE
        if incremental and each == Changed.SERVICE
        else TOUCHES.get(each, EVERYTHING)
        for each in kinds
    )
    return Touches.union((Touches(), *rows))


def touches(push: PushRequest, part: Part, proxy: Proxy, context: PushContext) -> bool:
    """Return whether a change may touch a type of resources that a proxy has."""
    if not push.configs_updated:
        return True
    subject = _SUBJECTS.get(push)
    if part in subject.touched.for_proxy(proxy):
        return True
    if part in subject.touched.importing and context.scope(proxy).sidecar is not None:
        return True
    return part in TOUCHES[Changed.ADDRESS].for_proxy(proxy) and any(
        (proxy.namespace, address) in subject.addresses for address in proxy.addresses
    )


def touched_hosts(push: PushRequest, part: Part, proxy: Proxy) -> frozenset[str] | None:
    """Return the hosts of which a change may touch a type of resources; None: of any."""
    subject = _SUBJECTS.get(push)
    if not push.configs_updated or part in subject.of_any_host.for_proxy(proxy):
        return None
    return subject.hosts if part in subject.touched.for_proxy(proxy) else frozenset()


def _is_own(proxy: Proxy, key: ConfigKey) -> bool:
    return key.namespace == proxy.namespace and key.name in proxy.addresses
