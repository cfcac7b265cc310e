"""The ProxyConfigs for a workload, and how its proxy is to be started by them.

Source: Istio's API, networking/v1beta1 (ProxyConfig).
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from istio_config.kinds.proxy_config import PROXY_CONFIG, ProxyConfigSpec
from mesh_model._services import Labels
from mesh_model.policies._workload_rules import Workload, WorkloadRule, WorkloadRules

_Rule: TypeAlias = WorkloadRule[ProxyConfigSpec]


class StartSettings(NamedTuple):
    """How a proxy is to be started, as far as objects say so.

    concurrency: worker threads of an Envoy; 0: one for each core; None: no object says.
    variables: of the environment of the proxy and its agent, by name.
    """

    concurrency: int | None = None
    variables: Labels = ()


NO_SETTINGS = StartSettings()


class ProxyConfigs(NamedTuple):
    """The objects for one workload: one of each level at most, the oldest that there is.

    What a later level gives counts before what an earlier one does. A Pod's annotation
    `proxy.istio.io/config` stands between `of_namespace` and `of_workload`, and the `defaultConfig`
    of mesh config before all of them.
    """

    of_mesh: _Rule | None = None
    """Of the root namespace, without a selector."""
    of_namespace: _Rule | None = None
    of_workload: _Rule | None = None
    """With a selector, which counts in the namespace of the object alone."""

    @property
    def settings(self) -> StartSettings:
        """The settings of all of them: variables are united, and concurrency is replaced."""
        concurrency, variables = None, dict[str, str]()
        for rule in filter(None, self):
            if rule.spec.concurrency is not None:
                concurrency = rule.spec.concurrency
            variables |= rule.spec.variables
        return StartSettings(concurrency, tuple(sorted(variables.items())))


def proxy_configs_for(
    rules: WorkloadRules, workload: Workload, *, root_namespace: str
) -> ProxyConfigs:
    """Return the ProxyConfigs for a workload; none for one of no namespace."""
    found = rules.applying(PROXY_CONFIG, workload)
    own = [each for each in found if each.namespace == workload.namespace]
    in_root = workload.namespace == root_namespace
    return ProxyConfigs(
        of_mesh=_first_for_all(each for each in found if each.namespace == root_namespace),
        of_namespace=None if in_root else _first_for_all(own),
        of_workload=next((each for each in own if each.spec.selection.labels), None),
    )


def _first_for_all(rules: Iterable[_Rule]) -> _Rule | None:
    """Return the first that has no selector."""
    return next((each for each in rules if each.spec.selector is None), None)
