"""Finds CUSTOM policies whose provider can't be asked, with the place in the files.

Each object is valid by itself. Without a provider, what the rules of a policy match is denied.
"""

from collections.abc import Iterator

from envoy_config.plans import provider_service
from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY, Action
from istio_config.kinds.mesh_config.providers import Authorizer, GrpcAuthorizer
from mesh_configfile import Problem
from mesh_model import MeshModel

_DENIED = "what the rules match is denied"


def unusable_providers(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each policy that asks a provider which can't be asked."""
    for rule in model.workload_rules.of_kind(AUTHORIZATION_POLICY):
        spec = rule.spec
        if spec.action is Action.CUSTOM and spec.provider is not None:
            why = _why_unusable(spec.provider.name, rule.namespace, model)
            if why is not None:
                item = model.workload_rules.object_of(rule)
                yield item.problem(("spec", "provider", "name"), f"{why}: {_DENIED}")


def same_providers(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `unusable_providers` finds the same in both, if services are the same."""
    return old.workload_rules is new.workload_rules and old.mesh_config == new.mesh_config


def _why_unusable(name: str, namespace: str, model: MeshModel) -> str | None:
    providers = [each for each in model.mesh_config.extension_providers if each.name == name]
    if not providers:
        known = sorted(
            each.name for each in model.mesh_config.extension_providers if each.authorizer
        )
        listed = f"; there are {', '.join(known)}" if known else ""
        return f"the mesh config has no extension provider {name}{listed}"
    authorizer = providers[0].authorizer
    if authorizer is None:
        return f"the extension provider {name} does not decide on requests"
    found = provider_service(authorizer.service, authorizer.port, model)
    if found is None:
        return (
            f"the extension provider {name} is at {authorizer.service}, port {authorizer.port}, "
            "and there is no such service"
        )
    service = model.by_key[found.key]
    root = model.mesh_config.root_namespace
    if namespace != root and not service.visible_in(namespace):
        return (
            f"the extension provider {name} is the service {service.host}, which is not exported "
            f"to namespace {namespace}"
        )
    return _why_not_spoken(name, authorizer, model, found.key)


def _why_not_spoken(
    name: str, authorizer: Authorizer, model: MeshModel, key: tuple[str, str]
) -> str | None:
    port = model.by_key[key].port(authorizer.port)
    if isinstance(authorizer, GrpcAuthorizer) and port is not None and not port.protocol.is_http2:
        return (
            f"the extension provider {name} is asked by gRPC, and its port {port.number} declares "
            f"the protocol {port.protocol}, not GRPC"
        )
    return None
