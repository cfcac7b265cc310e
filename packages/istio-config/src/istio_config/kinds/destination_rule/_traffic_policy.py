"""How clients connect to a service, to a subset of it, or to one of its ports.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from istio_config.addresses import is_host, is_ip
from istio_config.kinds.checks import duration_mistakes, percent_mistake
from istio_config.kinds.destination_rule._client_tls import (
    ClientTls,
    client_tls_mistakes,
    client_tls_warnings,
)
from istio_config.kinds.destination_rule._connection_pool import (
    ConnectionPool,
    connection_pool_mistakes,
)
from istio_config.kinds.destination_rule._load_balancer import (
    LoadBalancer,
    load_balancer_mistakes,
    load_balancer_warnings,
)
from istio_config.kinds.destination_rule._outlier_detection import (
    OutlierDetection,
    outlier_detection_mistakes,
    outlier_detection_warnings,
)
from istio_config.kinds.fields import PortNumber, SpecFields
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding


class PortSelector(SpecFields, frozen=True):
    """A port of the service."""

    number: PortNumber | None = None


class PortTrafficPolicy(SpecFields, frozen=True):
    """The policy of a port: it replaces these settings of the service, also where it is unset."""

    port: PortSelector | None = None
    load_balancer: LoadBalancer | None = None
    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None


class Tunnel(SpecFields, frozen=True):
    """The target of TCP connections that are tunneled through the service, a forward proxy."""

    protocol: str = ""
    """CONNECT or POST; empty means CONNECT."""
    target_host: str = ""
    target_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class ProxyProtocolVersion(StrEnum):
    """The versions of the PROXY protocol."""

    V1 = "V1"
    V2 = "V2"


class ProxyProtocol(SpecFields, frozen=True):
    """The header of a connection with the address of the client."""

    version: ProxyProtocolVersion = ProxyProtocolVersion.V1


class RetryBudget(SpecFields, frozen=True):
    """How many of the active requests may be retries."""

    percent: float | None = None
    min_retry_concurrency: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] = 0
    budget_interval: Duration | None = None


class TrafficPolicy(SpecFields, frozen=True):
    """How clients connect to a service, or to a subset of it."""

    load_balancer: LoadBalancer | None = None
    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None
    port_level_settings: tuple[PortTrafficPolicy, ...] = ()
    tunnel: Tunnel | None = None
    proxy_protocol: ProxyProtocol | None = None
    retry_budget: RetryBudget | None = None


def traffic_policy_mistakes(policy: TrafficPolicy) -> Iterator[Finding]:
    """Yield what is wrong with a policy and those of its ports; paths start below it."""
    if policy == TrafficPolicy():
        yield (), "is empty; give at least one setting, or remove it"
    yield from _section_mistakes(policy)
    for index, each in enumerate(policy.port_level_settings):
        path = ("portLevelSettings", index)
        if each.port is None or each.port.number is None:
            yield path, "the port is missing; write port: {number: 80}"
        if each == PortTrafficPolicy(port=each.port):
            yield path, "has nothing but a port; give at least one setting, or remove it"
        for inner, message in _section_mistakes(each):
            yield (*path, *inner), message
    if policy.tunnel is not None:
        if policy.proxy_protocol is not None:
            yield ("proxyProtocol",), "can't stand beside tunnel: keep one of the two"
        for inner, message in _tunnel_mistakes(policy.tunnel):
            yield ("tunnel", *inner), message
    budget = policy.retry_budget
    if budget is not None:
        if budget.percent is not None and (wrong := percent_mistake(budget.percent)) is not None:
            yield ("retryBudget", "percent"), wrong
        yield from duration_mistakes(("retryBudget", "budgetInterval"), budget.budget_interval)


def _section_mistakes(policy: TrafficPolicy | PortTrafficPolicy) -> Iterator[Finding]:
    found: list[tuple[str, Iterator[Finding]]] = []
    if policy.load_balancer is not None:
        found.append(("loadBalancer", load_balancer_mistakes(policy.load_balancer)))
    if policy.connection_pool is not None:
        found.append(("connectionPool", connection_pool_mistakes(policy.connection_pool)))
    if policy.outlier_detection is not None:
        found.append(("outlierDetection", outlier_detection_mistakes(policy.outlier_detection)))
    if policy.tls is not None:
        found.append(("tls", client_tls_mistakes(policy.tls)))
    for name, findings in found:
        for path, message in findings:
            yield (name, *path), message


def _tunnel_mistakes(tunnel: Tunnel) -> Iterator[Finding]:
    if tunnel.protocol not in ("", "CONNECT", "POST"):
        yield ("protocol",), f'expected CONNECT or POST, found "{tunnel.protocol}"'
    if not is_ip(tunnel.target_host) and not (
        is_host(tunnel.target_host) and "." in tunnel.target_host
    ):
        yield (
            ("targetHost",),
            f'"{tunnel.target_host}" is neither a full host name such as www.example.com nor an IP',
        )
    if not tunnel.target_port:
        yield (), "the field targetPort is missing"


def traffic_policy_warnings(policy: TrafficPolicy, *, by_selector: bool) -> Iterator[Finding]:
    """Yield what is probably not meant in a policy; paths start below it.

    by_selector: whether the rule chooses clients by their labels.
    """
    ports: set[int | None] = set()
    for index, by_port in enumerate(policy.port_level_settings):
        path = ("portLevelSettings", index)
        number = by_port.port.number if by_port.port is not None else None
        if number in ports:
            yield path, f"the port {number} is given twice; the first one counts"
        ports.add(number)
        for inner, message in _section_warnings(by_port, by_selector=by_selector):
            yield (*path, *inner), message
    yield from _section_warnings(policy, by_selector=by_selector)
    if policy.retry_budget is not None and policy.retry_budget.budget_interval is not None:
        yield (
            ("retryBudget", "budgetInterval"),
            "has no effect: Envoy counts the requests that are active",
        )


def _section_warnings(
    policy: TrafficPolicy | PortTrafficPolicy, *, by_selector: bool
) -> Iterator[Finding]:
    balancer, tls = policy.load_balancer, policy.tls
    if balancer is not None:
        for path, message in load_balancer_warnings(balancer):
            yield ("loadBalancer", *path), message
        setting = balancer.locality_lb_setting
        if (
            setting is not None
            and (setting.failover or setting.failover_priority)
            and policy.outlier_detection is None
        ):
            yield (
                ("loadBalancer", "localityLbSetting"),
                "failover has no effect without outlierDetection beside it",
            )
    if policy.outlier_detection is not None:
        for path, message in outlier_detection_warnings(policy.outlier_detection):
            yield ("outlierDetection", *path), message
    if tls is not None:
        for path, message in client_tls_warnings(tls, by_selector=by_selector):
            yield ("tls", *path), message
