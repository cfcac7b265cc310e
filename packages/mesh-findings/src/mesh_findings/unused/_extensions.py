"""Finds extensions that can't act as they say; problems say where in the files."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from istio_config.kinds.traffic_extension import (
    DEFAULT_SCHEME,
    EXTENSION_KINDS,
    MOST_EXTENSIONS,
    WASM_PLUGIN,
    FailStrategy,
    WasmFields,
)
from mesh_configfile import FieldPath, Problem
from mesh_model import MeshModel

_DOCKER = "kubernetes.io/dockerconfigjson"


class _Selected(NamedTuple):
    """The labels and Gateways that an extension is for; none: it is for every workload."""

    labels: frozenset[tuple[str, str]] = frozenset()
    gateways: tuple[str, ...] = ()


def unused_extensions(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each extension that can't act, or not as it says.

    Its namespace has too many that are older, or the registry of its module needs a Secret that
    there is not.
    """
    yield from _too_many(model)
    for kind in EXTENSION_KINDS:
        path: FieldPath = ("spec",) if kind is WASM_PLUGIN else ("spec", "wasm")
        for rule in model.workload_rules.of_kind(kind):
            module: WasmFields | None = rule.spec.module
            if module is None or not module.image_pull_secret or module.scheme != DEFAULT_SCHEME:
                continue
            if model.secrets.pull_secret(rule.namespace, module.image_pull_secret):
                continue
            passes = module.fail_strategy is FailStrategy.FAIL_OPEN
            yield model.workload_rules.object_of(rule).problem(
                (*path, "imagePullSecret"),
                f"there is no Secret {module.image_pull_secret} of type {_DOCKER} in namespace "
                f"{rule.namespace}: the module is not pulled, and traffic "
                f"{'passes without it' if passes else 'is refused'}",
            )


def _too_many(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each extension that acts at no proxy, whatever workloads there are.

    The oldest `MOST_EXTENSIONS` of a namespace act at one proxy. An extension acts nowhere if that
    many older ones are for all of its workloads: those without a selector, and those with its own.
    """
    rules = model.workload_rules
    found = [each for kind in EXTENSION_KINDS for each in rules.of_kind(kind)]
    if len(found) <= MOST_EXTENSIONS:
        return
    older = Counter[tuple[str, _Selected]]()
    for rule in sorted(found, key=lambda each: rules.object_of(each).seniority):
        selection = rule.spec.selection
        if selection.is_for_waypoints:
            continue
        selected = _Selected(frozenset(selection.labels.items()), selection.gateways)
        same = {selected, _Selected()}
        if sum(older[rule.namespace, each] for each in same) >= MOST_EXTENSIONS:
            yield rules.object_of(rule).problem(
                ("metadata", "name"),
                f"namespace {rule.namespace} has {MOST_EXTENSIONS} older extensions for all the "
                "workloads that this one is for, and no more act at a proxy: it acts at none; "
                "remove some, or give them a selector",
            )
        older[rule.namespace, selected] += 1


def same_extensions(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `unused_extensions` finds the same in both."""
    return old.workload_rules is new.workload_rules and old.secrets is new.secrets
