"""The extensions of a proxy: TrafficExtensions and WasmPlugins that are for its workload.

Those of a phase come by their priority, the highest first and those without one last; then the own
namespace's before the root namespace's, and the oldest first. Source: Istio's `push_context.go`.

A namespace has at most `MOST_EXTENSIONS` at a proxy, its oldest: each is in every listener, so
without a bound some hundreds of small objects would cost each proxy its memory.
"""

from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from envoy_config.plan._proxy import Proxy
from envoy_config.plan._workload import workload_of
from envoy_config.plan.resolved._extensions import Extension, ExtensionMatch
from istio_config.kinds.traffic_extension import (
    EXTENSION_KINDS,
    MOST_EXTENSIONS,
    WASM_PLUGIN,
    ExtensionSpec,
    TrafficMatch,
    TrafficSide,
)
from mesh_model import MeshModel, WorkloadRule

ExtensionRule = WorkloadRule[ExtensionSpec]
_PREFIX = "extensions.istio.io/trafficextension/"
_OF_PLUGIN = "~istio-translated-wasmplugin"
"""After the name of a WasmPlugin, as in Istio: a TrafficExtension may have the same name."""
_LAST = -(2**31)


class _Ranked(NamedTuple):
    rank: tuple[int, bool, str, str]
    rule: ExtensionRule


def extension_name(rule: ExtensionRule) -> str:
    """Return the name of an extension's filters, and of the resource by which its program comes."""
    mark = _OF_PLUGIN if rule.kind == WASM_PLUGIN.name else ""
    return f"{_PREFIX}{rule.namespace}.{rule.name}{mark}"


def extension_rules(proxy: Proxy, model: MeshModel) -> tuple[ExtensionRule, ...]:
    """Return the extensions for a proxy, in their order, which is another one in each phase.

    None are for gRPC programs, which can't run them.
    """
    rules = model.workload_rules
    if proxy.is_proxyless or not any(map(rules.has, EXTENSION_KINDS)):
        return ()
    return tuple(each.rule for each in sorted(_ranked(proxy, model), key=itemgetter(0)))


def extensions_of(proxy: Proxy, model: MeshModel) -> tuple[Extension, ...]:
    """Return the extensions of a proxy, in their order."""
    return tuple(
        Extension(
            name=extension_name(rule),
            phase=rule.spec.place,
            is_network=rule.spec.module is not None and rule.spec.module.is_network,
            is_script=bool(rule.spec.script),
            matches=tuple(map(_match, rule.spec.match)),
        )
        for rule in extension_rules(proxy, model)
    )


def has_pull_secrets(proxy: Proxy, model: MeshModel, namespace: str) -> bool:
    """Return whether modules for a proxy are pulled with Secrets of a namespace."""
    return any(
        rule.namespace == namespace
        and rule.spec.module is not None
        and bool(rule.spec.module.image_pull_secret)
        for rule in extension_rules(proxy, model)
    )


def _ranked(proxy: Proxy, model: MeshModel) -> Iterator[_Ranked]:
    rules = model.workload_rules
    for rule in _acting(proxy, model):
        priority = rule.spec.priority
        rank = (
            -(priority if priority is not None else _LAST),
            rule.namespace != proxy.namespace,
            rules.object_of(rule).created or "9999",
            rule.name,
        )
        yield _Ranked(rank, rule)


def _acting(proxy: Proxy, model: MeshModel) -> Iterator[ExtensionRule]:
    """Yield the extensions for a proxy but for those of a namespace that are too many."""
    rules, workload = model.workload_rules, workload_of(proxy, model)
    found = [each for kind in EXTENSION_KINDS for each in rules.applying(kind, workload)]
    if len(found) <= MOST_EXTENSIONS:
        yield from found
        return
    found.sort(key=lambda each: rules.object_of(each).seniority)
    so_far = Counter[str]()
    for each in found:
        so_far[each.namespace] += 1
        if so_far[each.namespace] <= MOST_EXTENSIONS:
            yield each


def _match(match: TrafficMatch) -> ExtensionMatch:
    return ExtensionMatch(
        of_calls=match.mode is not TrafficSide.SERVER,
        of_callers=match.mode is not TrafficSide.CLIENT,
        ports=tuple(each.number for each in match.ports),
    )
