"""The patches of EnvoyFilters that apply to a proxy, in the order in which they do.

A patch is one object for as long as its EnvoyFilter says the same: identity compares them, and what
was patched is kept by it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import re2
from google.protobuf.message import Message

from envoy_config.plan._proxy import Proxy
from envoy_config.plan._workload import workload_of
from istio_config.kinds.envoy_filter import (
    ENVOY_FILTER,
    MOST_VERSION_BYTES,
    OF_LISTENERS,
    OF_ROUTES,
    ApplyTo,
    ConfigPatch,
    Context,
    EnvoyFilterSpec,
    ObjectMatch,
    Operation,
    ProxyMatch,
    has_private_parts,
)
from istio_config.kinds.envoy_filter.values import value_of
from mesh_model import MeshModel, WorkloadRule

Rule = WorkloadRule[EnvoyFilterSpec]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Patch:
    """One patch, with its value as a message."""

    rule: Rule
    index: int
    apply_to: ApplyTo
    operation: Operation
    match: ObjectMatch
    value: Message

    def __str__(self) -> str:
        """Return its object and its place there."""
        return f"{self.rule.namespace}/{self.rule.name} configPatches[{self.index}]"

    @property
    def context(self) -> Context:
        """The sort of proxies, and the side of sidecars, that it is for."""
        return self.match.context

    @property
    def adds(self) -> bool:
        """Whether it adds an object, wherever it is put."""
        return self.operation is Operation.ADD or self.operation.is_insert

    def is_for(self, side: Context) -> bool:
        """Return whether it is for objects on a side of sidecars, or for those of gateways."""
        return self.match.context in (Context.ANY, side)


class ProxyPatches(NamedTuple):
    """The patches of a proxy, by what they change."""

    listeners: tuple[Patch, ...] = ()
    """With those of routes that stand in listeners."""
    clusters: tuple[Patch, ...] = ()
    routes: tuple[Patch, ...] = ()
    extensions: tuple[Patch, ...] = ()


NO_PATCHES = ProxyPatches()


def patches_in(rule: Rule) -> tuple[Patch, ...]:
    """Return the patches of an EnvoyFilter, but those that only Istio's Envoy could take."""
    return tuple(
        Patch(
            rule=rule,
            index=index,
            apply_to=each.apply_to,
            operation=each.patch.operation,
            match=each.match,
            value=value_of(each),
        )
        for index, each in enumerate(rule.spec.config_patches)
        if each.apply_to is not ApplyTo.BOOTSTRAP and not _is_private(each)
    )


def rules_for(proxy: Proxy, model: MeshModel) -> tuple[Rule, ...]:
    """Return the EnvoyFilters for a proxy, in their order: by priority, the root namespace's first.

    None are for gRPC programs, which have no Envoy.
    """
    rules = model.workload_rules
    if proxy.is_proxyless or not rules.has(ENVOY_FILTER):
        return ()
    found = rules.applying(ENVOY_FILTER, workload_of(proxy, model))
    return tuple(sorted(found, key=_priority))


def patches_for(proxy: Proxy, patches: Iterable[Patch]) -> ProxyPatches:
    """Return those of some patches that are for a proxy, sorted out."""
    sides = (
        (Context.SIDECAR_INBOUND, Context.SIDECAR_OUTBOUND)
        if proxy.is_sidecar
        else (Context.GATEWAY,)
    )
    found = [
        each
        for each in patches
        if any(map(each.is_for, sides)) and _is_matched(proxy, each.match.proxy)
    ]
    if not found:
        return NO_PATCHES
    return ProxyPatches(
        listeners=tuple(each for each in found if each.apply_to in OF_LISTENERS | OF_ROUTES),
        clusters=tuple(each for each in found if each.apply_to is ApplyTo.CLUSTER),
        routes=tuple(each for each in found if each.apply_to in OF_ROUTES),
        extensions=tuple(each for each in found if each.apply_to is ApplyTo.EXTENSION_CONFIG),
    )


def _is_private(patch: ConfigPatch) -> bool:
    return patch.patch.operation is not Operation.REMOVE and has_private_parts(patch.patch.value)


_priority = attrgetter("spec.priority")


def _is_matched(proxy: Proxy, wanted: ProxyMatch | None) -> bool:
    """Return whether the metadata of a proxy's node is as a patch wants it."""
    if wanted is None:
        return True
    if wanted.proxy_version:
        if len(wanted.proxy_version) > MOST_VERSION_BYTES:
            return False
        version = proxy.metadata.get("ISTIO_VERSION")
        if not isinstance(version, str) or not version:
            return False
        if re2.compile(wanted.proxy_version).search(version) is None:
            return False
    return all(proxy.metadata.get(key) == value for key, value in wanted.metadata.items())
