"""The key sets that the RequestAuthentications of a mesh want."""

from collections.abc import Mapping
from typing import NamedTuple

from istio_config.kinds.request_authentication import MOST_PATIENCE_S, REQUEST_AUTHENTICATION
from mesh_model.policies._key_sets import KeySource, source_of
from mesh_model.policies._workload_rules import WorkloadRules

_PATIENCE_S = 5.0


class WantedKeySet(NamedTuple):
    """The time and the askers of a key set's fetch.

    timeout_s: the most seconds that it may take.
    namespaces: those whose objects want it, one at least.
    """

    timeout_s: float
    namespaces: frozenset[str]


def wanted_key_sets(rules: WorkloadRules) -> Mapping[KeySource, WantedKeySet]:
    """Return where they are, and what is asked of their fetches."""
    found: dict[KeySource, WantedKeySet] = {}
    for each in rules.of_kind(REQUEST_AUTHENTICATION):
        for rule in each.spec.jwt_rules:
            source = source_of(rule)
            if source is not None:
                own = float(rule.timeout) if rule.timeout is not None else _PATIENCE_S
                timeout_s, namespaces = found.get(source, (0.0, frozenset[str]()))
                found[source] = WantedKeySet(
                    min(max(timeout_s, own), MOST_PATIENCE_S), namespaces | {each.namespace}
                )
    return found
