"""The AuthorizationPolicies of a proxy: who may call its workload, and what.

Equal ones make the same filters.
"""

from typing import NamedTuple

from envoy_config.plan._provider_services import ProviderService, provider_service
from istio_config.kinds.authorization_policy import (
    AUTHORIZATION_POLICY,
    DRY_RUN,
    Action,
    AuthorizationPolicySpec,
)
from istio_config.kinds.mesh_config.providers import Authorizer
from mesh_model import MeshModel, Workload, WorkloadRule

Policy = WorkloadRule[AuthorizationPolicySpec]
DEFAULT_TRUST_DOMAIN = "cluster.local"
"""In policies it stands for the mesh's own trust domain, whatever that is."""


class Provider(NamedTuple):
    """The provider that is asked for all CUSTOM policies of a proxy, and where it is."""

    name: str
    authorizer: Authorizer
    service: ProviderService


class Authorization(NamedTuple):
    """The policies that a proxy enforces, with all that their filters depend on.

    policies: those of the root namespace first, of each namespace the oldest first. trust_domains:
    names of the mesh's own; callers of any of them are the same callers. provider: None if CUSTOM
    policies name none that can be asked, or several.
    """

    policies: tuple[Policy, ...]
    trust_domains: tuple[str, ...]
    provider: Provider | None

    def of_action(self, action: Action) -> tuple[Policy, ...]:
        """Return the policies of an action."""
        return tuple(each for each in self.policies if each.spec.action is action)


NO_AUTHORIZATION = Authorization(policies=(), trust_domains=(), provider=None)


def is_dry_run(policy: Policy) -> bool:
    """Return whether a policy is tried out: it is counted what it would do."""
    return dict(policy.annotations).get(DRY_RUN, "").lower() in ("true", "t", "1")


def authorization_of(workload: Workload, model: MeshModel) -> Authorization:
    """Return the policies for a workload."""
    applying = model.workload_rules.applying(AUTHORIZATION_POLICY, workload)
    if not applying:
        return NO_AUTHORIZATION
    trust_domains = dict.fromkeys((*model.trust_domains, DEFAULT_TRUST_DOMAIN))
    names = {
        each.spec.provider.name
        for each in applying
        if each.spec.action is Action.CUSTOM and each.spec.provider is not None
    }
    provider = _provider(names.pop(), workload, model) if len(names) == 1 else None
    return Authorization(applying, tuple(trust_domains), provider)


def _provider(name: str, workload: Workload, model: MeshModel) -> Provider | None:
    """Return a provider, if the workload's proxy has a cluster of its service."""
    for each in model.mesh_config.extension_providers:
        authorizer = each.authorizer
        if each.name != name or authorizer is None:
            continue
        service = provider_service(authorizer.service, authorizer.port, model)
        if service is not None and model.by_key[service.key].visible_in(workload.namespace):
            return Provider(name, authorizer, service)
    return None
