"""The difference of two models as a push request: config keys, reasons, incremental or not.

The kinds of config keys are those of `Changed`. No keys mean that everything may have changed.
"""

from collections.abc import Iterable, Iterator

from envoy_config.changes._rule_changes import rule_change, ruled_hosts, touches_connections
from envoy_config.changes._touches import OF_PATCHES, Changed
from envoy_config.plan.gateway._account_workloads import changed_namespaces
from istio_config.kinds.envoy_filter import ENVOY_FILTER, ApplyTo
from istio_config.kinds.request_authentication import RequestAuthenticationSpec
from mesh_model import (
    MeshModel,
    RuleName,
    Service,
    changed_services,
    only_endpoints_differ,
    source_of,
)
from mesh_model.secrets import ROOTS_SUFFIX
from xds_server import ConfigKey, PushRequest


def difference(old: MeshModel | None, new: MeshModel) -> PushRequest | None:
    """Compare two models; None when no proxy could see a difference.

    The request is `incremental` when nothing but endpoints and secrets changed.
    """
    if old is None or old.mesh_config != new.mesh_config or old.trust_domain != new.trust_domain:
        return PushRequest(triggers=("global",), reasons=("MeshConfig",))
    if old.owners != new.owners:
        return PushRequest(triggers=("global",), reasons=("Namespaces",))
    if old.networks != new.networks:
        return PushRequest(triggers=("global",), reasons=("MeshNetworks",))
    services: set[ConfigKey] = set()
    addresses: set[ConfigKey] = set()
    incremental = True
    changed = changed_services(old, new)
    for key, (before, after) in changed.pairs.items():
        services.add(ConfigKey(Changed.SERVICE, key[1], key[0]))
        addresses |= _changed_addresses(before, after)
        if not only_endpoints_differ(before, after, new.destination_rules):
            incremental = False
    peer_policies = {
        ConfigKey(Changed.PEER_AUTHENTICATION, name, namespace)
        for namespace, name in old.policies.differing(new.policies)
    }
    objects = old.rules.differences(new.rules)
    rules = {
        ConfigKey(kind.partition(".")[0], name, namespace) for kind, namespace, name, _ in objects
    }
    of_workloads = old.workload_rules.differing(new.workload_rules) | _of_other_keys(old, new)
    workload_rules = {ConfigKey(kind, name, namespace) for kind, namespace, name in of_workloads}
    configured = peer_policies | rules | workload_rules
    of_hosts = rule_change(old.destination_rules, new.destination_rules)
    touched = {ConfigKey(Changed.RULED_HOST, host, "") for host in ruled_hosts(old, new, of_hosts)}
    if touches_connections(new, objects.values(), of_hosts):
        touched.add(ConfigKey(Changed.CONNECTIONS, "", ""))
    touched |= {ConfigKey(part, "", "") for part in _patched(old, new, of_workloads)}
    secrets = {
        ConfigKey(Changed.SECRET, name, namespace)
        for namespace, name in old.secrets.differing(new.secrets) | _secrets_of_others(old, new)
    }
    triggers: list[str] = ["secret"] if secrets else []
    if services:
        triggers.append("endpoint" if incremental else "service")
    if configured:
        incremental = False
        triggers.append("config")
    if not services and not configured:
        if not changed.same_order:
            # Only which of two conflicting services is older.
            return PushRequest(triggers=("service",), reasons=("order of services",))
        if not secrets:
            return None
    return PushRequest(
        incremental=incremental,
        configs_updated=frozenset(services | configured | secrets | addresses | touched),
        triggers=tuple(triggers),
        reasons=tuple(
            f"{key.kind}/{key.namespace}/{key.name}"
            for key in sorted(services | configured | secrets)
        ),
    )


def _secrets_of_others(old: MeshModel, new: MeshModel) -> frozenset[tuple[str, str]]:
    """Return namespace and name of the Secrets that may be for other proxies now."""
    if not new.secrets:
        return frozenset()
    namespaces = changed_namespaces(old, new)
    changed = old.gateways.differing(new.gateways)
    gateways = [
        each
        for each in new.gateways.gateways
        if each.namespace in namespaces or (each.namespace, each.name) in changed
    ]
    names = {
        name.removesuffix(ROOTS_SUFFIX).rpartition("/")[2]
        for gateway in gateways
        for server in gateway.spec.servers
        if server.tls is not None
        for name in (*server.tls.credentials, server.tls.ca_cert_credential_name)
    }
    return frozenset(
        (namespace, name)
        for namespace, name in new.secrets.keys
        if namespace in namespaces or name.removesuffix(ROOTS_SUFFIX) in names
    )


def _of_other_keys(old: MeshModel, new: MeshModel) -> frozenset[RuleName]:
    """Return the names of the RequestAuthentications of which a key set is another."""
    changed = old.key_sets.differing(new.key_sets)
    if not changed:
        return frozenset()
    return frozenset(
        name
        for name, rule in new.workload_rules.by_name.items()
        if isinstance(rule.spec, RequestAuthenticationSpec)
        and any(source_of(each) in changed for each in rule.spec.jwt_rules)
    )


def _patched(old: MeshModel, new: MeshModel, changed: Iterable[RuleName]) -> Iterator[str]:
    """Yield the parts of configuration that EnvoyFilters may patch otherwise now."""
    names = frozenset(each for each in changed if each[0] == ENVOY_FILTER.name)
    objects: frozenset[ApplyTo] = frozenset(
        patch.apply_to
        for model in (old, new)
        for rule in (model.workload_rules.of_kind(ENVOY_FILTER) if names else ())
        if (ENVOY_FILTER.name, rule.namespace, rule.name) in names
        for patch in rule.spec.config_patches
    )
    return (part for part, some in OF_PATCHES.items() if not objects.isdisjoint(some))


def _changed_addresses(before: Service | None, after: Service | None) -> set[ConfigKey]:
    """Return the addresses of the endpoints that came, went, or have other ports."""
    old = frozenset(before.endpoints) if before is not None else frozenset()
    new = frozenset(after.endpoints) if after is not None else frozenset()
    if before is not None and after is not None and before.ports != after.ports:
        changed = old | new
    else:
        changed = old ^ new
    return {ConfigKey(Changed.ADDRESS, each.address, each.namespace) for each in changed}
