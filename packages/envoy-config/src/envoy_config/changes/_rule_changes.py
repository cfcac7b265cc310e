"""The hosts and the parts that a change of rules can touch, derived from the rules alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from istio_config.edits import edits
from istio_config.host_patterns import has
from istio_config.kinds.destination_rule import PortTrafficPolicy, TrafficPolicy
from istio_config.kinds.gateway import TlsMode
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_model import DestinationRules, Differing, MeshModel, Rule


@dataclass(frozen=True, slots=True)
class RuleChange:
    """The DestinationRules that differ: by host names, and the ends of those of wildcards."""

    hosts: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    gone: tuple[Rule, ...] = ()
    """The rules that are there no longer, or not as they were."""
    come: tuple[Rule, ...] = ()

    def touches(self, host: str) -> bool:
        """Return whether a host may have another rule than before."""
        return host in self.hosts or any(host.endswith(each) for each in self.suffixes)

    def touched(self, services: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those of some services, by namespace and host, that may have another rule."""
        if self.suffixes:
            return [each for each in services if self.touches(each[1])]
        hosts = self.hosts
        return [each for each in services if each[1] in hosts] if hosts else []

    def rivals(self, rules: DestinationRules) -> list[Rule]:
        """Return the rules that hosts may have now instead of those that are gone, and the new."""
        hosts, suffixes = self.hosts, self.suffixes
        return [
            each
            for each in rules.rules
            if (host := each.host) in hosts
            or (suffixes and self.touches(host))
            or (host[0] == "*" and any(has(host, one) for one in hosts))
        ]


def rule_change(old: DestinationRules, new: DestinationRules) -> RuleChange:
    """Compare the rules of two models; those that are the same object are the same."""
    if old is new:
        return RuleChange()
    gone, come = edits(old.rules, new.rules)
    hosts = {each.host for each in (*gone, *come)}
    return RuleChange(
        frozenset(each for each in hosts if not each.startswith("*")),
        tuple(each[1:] for each in hosts if each.startswith("*")),
        tuple(gone),
        tuple(come),
    )


class RuleChanges:
    """The changes that led to the rules of one model, by the rules that were there before."""

    def __init__(self, new: DestinationRules) -> None:
        self._new = new
        self._since: dict[int, tuple[DestinationRules, RuleChange]] = {}

    def since(self, old: DestinationRules) -> RuleChange:
        """Return the change from the rules of an earlier model."""
        known = self._since.get(id(old))
        if known is None:
            known = self._since[id(old)] = old, rule_change(old, self._new)
        return known[1]


def ruled_hosts(old: MeshModel, new: MeshModel, change: RuleChange) -> frozenset[str]:
    """Return the hosts that may have another DestinationRule in another model."""
    if not change.suffixes:
        return change.hosts
    services = (service for model in (old, new) for service in model.services)
    return change.hosts | {each.host for each in services if change.touches(each.host)}


def touches_connections(
    new: MeshModel, changes: Iterable[Differing], rule_change: RuleChange
) -> bool:
    """Return whether rules changed that listeners have, for connections that are not HTTP.

    changes: of the objects that are rules. rule_change: of the DestinationRules. A rule that comes
    or goes may hide another of the same host, so that all those of the host count. A router that
    passes on the mesh's TLS has a filter chain for each subset of a service.
    """
    specs = (each.spec for change in changes for each in change if each is not None)
    if any(isinstance(spec, VirtualServiceSpec) and (spec.tls or spec.tcp) for spec in specs):
        return True
    gone, come = rule_change.gone, rule_change.come
    if not gone and not come:
        return False
    rules = (*gone, *rule_change.rivals(new.destination_rules))
    if any(_has_connection_settings(policy) for rule in rules for policy in rule.policies):
        return True
    if set(map(_subsets, gone)) == set(map(_subsets, come)):
        return False
    return any(rule.subsets for rule in rules) and any(
        server.tls is not None and server.tls.mode is TlsMode.AUTO_PASSTHROUGH
        for gateway in new.gateways.gateways
        for server in gateway.spec.servers
    )


def _subsets(rule: Rule) -> tuple[object, ...]:
    """Return all by which a rule decides which subsets clients know."""
    selector = frozenset(rule.selector.items())
    return rule.namespace, rule.host, rule.export_to, selector, frozenset(rule.subsets)


def _has_connection_settings(policy: TrafficPolicy | PortTrafficPolicy) -> bool:
    pool, balancer = policy.connection_pool, policy.load_balancer
    if pool is not None and pool.tcp is not None:
        return True
    if balancer is not None and balancer.consistent_hash is not None:
        return True
    return isinstance(policy, TrafficPolicy) and policy.tunnel is not None
