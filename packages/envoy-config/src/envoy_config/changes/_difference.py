"""The difference of two models as a push request: config keys, reasons, incremental or not.

The kinds of config keys: `ServiceEntry` (host and namespace of a service), `PeerAuthentication`
(name and namespace of a policy), those of traffic rules such as `VirtualService` with what they can
touch (`RuledHost`, `Connections`), those of rules for workloads such as `AuthorizationPolicy`, with
the parts that EnvoyFilters patch (`Patched...`), `Secret`, and `Address` (an address of a
namespace, at which another set of endpoints is served now). No keys mean that everything may have
changed.
"""

from collections.abc import Iterable, Iterator

from envoy_config.changes._config_keys import Changed
from envoy_config.changes._rule_touches import patched_objects, ruled_hosts, touches_connections
from envoy_config.plan.gateway._account_workloads import changed_namespaces
from istio_config.kinds.envoy_filter import OF_LISTENERS, OF_ROUTES, ApplyTo
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
    touched = {ConfigKey(Changed.RULED_HOST, host, "") for host in ruled_hosts(old, new)}
    if touches_connections(objects.values(), new.gateways):
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
    for each in patched_objects(old, new, changed):
        if each in OF_LISTENERS | OF_ROUTES:
            yield Changed.PATCHED_LISTENERS  # there are routes in listeners
        if each in OF_ROUTES:
            yield Changed.PATCHED_ROUTES
        if each is ApplyTo.CLUSTER:
            yield Changed.PATCHED_CLUSTERS
        if each is ApplyTo.EXTENSION_CONFIG:
            yield Changed.PATCHED_EXTENSIONS


def _changed_addresses(before: Service | None, after: Service | None) -> set[ConfigKey]:
    """Return the addresses of the endpoints that came, went, or have other ports."""
    old = frozenset(before.endpoints) if before is not None else frozenset()
    new = frozenset(after.endpoints) if after is not None else frozenset()
    if before is not None and after is not None and before.ports != after.ports:
        changed = old | new
    else:
        changed = old ^ new
    return {ConfigKey(Changed.ADDRESS, each.address, each.namespace) for each in changed}
