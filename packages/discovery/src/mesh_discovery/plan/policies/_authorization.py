"""The AuthorizationPolicies of a proxy: who may call its workload, and what.

Equal ones make the same filters.
"""

from typing import NamedTuple

from mesh_discovery.config.kinds.authorization_policy._kind import AUTHORIZATION_POLICY
from mesh_discovery.config.kinds.authorization_policy._spec import (
    DRY_RUN,
    Action,
    AuthorizationPolicySpec,
)
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model.policies._workload_rules import Workload, WorkloadRule

Policy = WorkloadRule[AuthorizationPolicySpec]
DEFAULT_TRUST_DOMAIN = "cluster.local"
"""In policies it stands for the mesh's own trust domain, whatever that is."""


class Authorization(NamedTuple):
    """The policies that a proxy enforces, with all that their filters depend on.

    policies: those of the root namespace first, of each namespace the oldest first. trust_domains:
    names of the mesh's own; callers of any of them are the same callers.
    """

    policies: tuple[Policy, ...] = ()
    trust_domains: tuple[str, ...] = ()

    def of_action(self, action: Action) -> tuple[Policy, ...]:
        """Return the policies of an action."""
        return tuple(each for each in self.policies if each.spec.action is action)


NO_AUTHORIZATION = Authorization()


def is_dry_run(policy: Policy) -> bool:
    """Tell whether a policy is tried out: it is counted what it would do."""
    return dict(policy.annotations).get(DRY_RUN, "").lower() in ("true", "t", "1")


def authorization_of(workload: Workload, model: MeshModel) -> Authorization:
    """Return the policies for a workload."""
    applying = model.workload_rules.applying(AUTHORIZATION_POLICY, workload)
    if not applying:
        return NO_AUTHORIZATION
    trust_domains = dict.fromkeys((*model.trust_domains, DEFAULT_TRUST_DOMAIN))
    return Authorization(applying, tuple(trust_domains))
