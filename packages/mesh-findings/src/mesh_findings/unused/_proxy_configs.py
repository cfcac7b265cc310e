"""Finds ProxyConfigs for all workloads of a namespace beside an older one, which alone acts."""

from collections.abc import Iterator

from istio_config.kinds.proxy_config import PROXY_CONFIG, ProxyConfigSpec
from mesh_configfile import Problem
from mesh_model import MeshModel, WorkloadRule


def unused_proxy_configs(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each ProxyConfig that is for no workload, as an older one is."""
    found: dict[str, WorkloadRule[ProxyConfigSpec]] = {}
    for rule in model.workload_rules.of_kind(PROXY_CONFIG):
        if rule.spec.selector is not None:
            continue
        oldest = found.setdefault(rule.namespace, rule)
        if rule is not oldest:
            yield model.workload_rules.object_of(rule).problem(
                ("spec",),
                f"the ProxyConfig {oldest.name} is for all workloads of the namespace, too, and is "
                "older: this one has no effect",
            )


def same_proxy_configs(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `unused_proxy_configs` finds the same in both."""
    return old.workload_rules is new.workload_rules
