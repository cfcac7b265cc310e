"""The policy of one cluster: sections of a DestinationRule by port and subset, and mesh defaults.

A port's entry replaces the four sections that it can have, all of them: those that it leaves out
are unset then. A subset replaces what it has itself.
"""

from dataclasses import dataclass, replace

from istio_config.kinds.destination_rule import (
    ClientTls,
    ConnectionPool,
    ConsistentHash,
    HttpSettings,
    LoadBalancer,
    OutlierDetection,
    PortTrafficPolicy,
    ProxyProtocol,
    RetryBudget,
    SimpleLb,
    TcpSettings,
    TrafficPolicy,
    Tunnel,
)
from mesh_configfile import Duration
from mesh_model import MeshModel, Rule

_NO_TCP, _NO_HTTP = TcpSettings(), HttpSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How clients connect to a port of a service, or of a subset."""

    load_balancer: LoadBalancer | None = None
    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None
    tunnel: Tunnel | None = None
    proxy_protocol: ProxyProtocol | None = None
    retry_budget: RetryBudget | None = None

    @property
    def tcp(self) -> TcpSettings:
        """The limits of connections."""
        pool = self.connection_pool
        return pool.tcp if pool is not None and pool.tcp is not None else _NO_TCP

    @property
    def http(self) -> HttpSettings:
        """The limits of requests."""
        pool = self.connection_pool
        return pool.http if pool is not None and pool.http is not None else _NO_HTTP

    @property
    def consistent_hash(self) -> ConsistentHash | None:
        """The settings of consistent hashing, if endpoints are chosen by it."""
        return self.load_balancer.consistent_hash if self.load_balancer is not None else None

    @property
    def is_passthrough(self) -> bool:
        """Whether connections go where they were going, and no endpoint is chosen."""
        balancer = self.load_balancer
        return balancer is not None and balancer.simple is SimpleLb.PASSTHROUGH


NO_POLICY = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpPolicy:
    """All that a TCP proxy needs of the policy of the cluster that it leads to."""

    idle_timeout: Duration | None = None
    max_connection_duration: Duration | None = None
    hashes_source_ip: bool = False
    tunnel: Tunnel | None = None


def effective_policy(rule: Rule | None, port: int, subset: str, model: MeshModel | None) -> Policy:
    """Return the policy of a service's port, or of a subset there.

    port: the service's. model: its mesh config fills in the pool and outlier detection.
    """
    if rule is None and (model is None or model.mesh_config.default_traffic_policy is None):
        return NO_POLICY
    found = _for_port(rule.spec.traffic_policy if rule is not None else None, port)
    found = _with_defaults(found, model)
    chosen = rule.subsets.get(subset) if rule is not None and subset else None
    if chosen is None or chosen.traffic_policy is None:
        return found
    return _with_subset(found, chosen.traffic_policy, port)


def tcp_policy(rule: Rule | None, port: int, subset: str, model: MeshModel | None) -> TcpPolicy:
    """Return the settings of a TCP proxy that leads to a port of a service, or of a subset.

    A subset has a tunnel only if it names one itself.
    """
    policy = effective_policy(rule, port, subset, model)
    hashing = policy.consistent_hash
    tunnel = policy.tunnel
    if rule is not None and subset:
        chosen = rule.subsets.get(subset)
        own = chosen.traffic_policy if chosen is not None else None
        tunnel = own.tunnel if own is not None else None
    return TcpPolicy(
        idle_timeout=policy.tcp.idle_timeout,
        max_connection_duration=policy.tcp.max_connection_duration,
        hashes_source_ip=hashing is not None and hashing.use_source_ip,
        tunnel=tunnel,
    )


def route_hash(rule: Rule | None, port: int | None, subset: str = "") -> ConsistentHash | None:
    """Return by which property of requests a route's destination is hashed.

    port: of the service, if the route's destination names it; else settings of ports do not count.
    """
    if rule is None:
        return None
    chosen = rule.subsets.get(subset) if subset else None
    policies = (chosen.traffic_policy if chosen is not None else None, rule.spec.traffic_policy)
    for policy in policies:
        if policy is None:
            continue
        by_port = _entry(policy, port) if port is not None else None
        balancer = policy.load_balancer if by_port is None else by_port.load_balancer
        if balancer is not None:
            return balancer.consistent_hash
        if by_port is not None:
            return None
    return None


def _entry(policy: TrafficPolicy, port: int) -> PortTrafficPolicy | None:
    for each in policy.port_level_settings:
        if each.port is not None and each.port.number == port:
            return each
    return None


def _for_port(policy: TrafficPolicy | None, port: int) -> Policy:
    if policy is None:
        return NO_POLICY
    by_port = _entry(policy, port)
    if by_port is None:
        return Policy(
            load_balancer=policy.load_balancer,
            connection_pool=policy.connection_pool,
            outlier_detection=policy.outlier_detection,
            tls=policy.tls,
            tunnel=policy.tunnel,
            proxy_protocol=policy.proxy_protocol,
            retry_budget=policy.retry_budget,
        )
    return Policy(
        load_balancer=by_port.load_balancer,
        connection_pool=by_port.connection_pool,
        outlier_detection=by_port.outlier_detection,
        tls=by_port.tls,
        retry_budget=policy.retry_budget,
    )


def _with_defaults(policy: Policy, model: MeshModel | None) -> Policy:
    default = model.mesh_config.default_traffic_policy if model is not None else None
    if default is None:
        return policy
    return replace(
        policy,
        connection_pool=policy.connection_pool or default.connection_pool,
        outlier_detection=policy.outlier_detection or default.outlier_detection,
    )


def _with_subset(policy: Policy, own: TrafficPolicy, port: int) -> Policy:
    by_port = _entry(own, port)
    sections: TrafficPolicy | PortTrafficPolicy = own
    if by_port is not None:
        sections = by_port
        policy = Policy(
            tunnel=policy.tunnel,
            proxy_protocol=policy.proxy_protocol,
            retry_budget=policy.retry_budget,
        )
    return Policy(
        load_balancer=sections.load_balancer or policy.load_balancer,
        connection_pool=sections.connection_pool or policy.connection_pool,
        outlier_detection=sections.outlier_detection or policy.outlier_detection,
        tls=sections.tls or policy.tls,
        tunnel=own.tunnel or policy.tunnel,
        proxy_protocol=own.proxy_protocol or policy.proxy_protocol,
        retry_budget=own.retry_budget or policy.retry_budget,
    )
