"""The key sets that the RequestAuthentications of a mesh want."""

from collections.abc import Mapping

from mesh_discovery.config.kinds.request_authentication._kind import REQUEST_AUTHENTICATION
from mesh_discovery.model.policies._key_sets import KeySource, source_of
from mesh_discovery.model.policies._workload_rules import WorkloadRules

_PATIENCE_S = 5.0


def wanted_key_sets(rules: WorkloadRules) -> Mapping[KeySource, float]:
    """Return where they are, with the most seconds that a fetch may take."""
    found: dict[KeySource, float] = {}
    for each in rules.of_kind(REQUEST_AUTHENTICATION):
        for rule in each.spec.jwt_rules:
            source = source_of(rule)
            if source is not None:
                own = rule.timeout if rule.timeout is not None else _PATIENCE_S
                found[source] = max(found.get(source, 0.0), float(own))
    return found
