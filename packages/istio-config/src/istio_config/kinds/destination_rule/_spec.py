"""The fields of a DestinationRule. Source: Istio's API, networking/v1."""

from enum import StrEnum
from typing import Annotated

import msgspec

from istio_config.kinds.destination_rule._client_tls import ClientTls
from istio_config.kinds.destination_rule._connection_pool import ConnectionPool
from istio_config.kinds.destination_rule._load_balancer import LoadBalancer
from istio_config.kinds.destination_rule._outlier_detection import OutlierDetection
from istio_config.kinds.fields import Labels, PortNumber, SpecFields
from istio_config.kinds.selection import WorkloadSelector
from mesh_configfile import Duration


class PortSelector(SpecFields, frozen=True):
    """A port of the service."""

    number: PortNumber | None = None


class PortTrafficPolicy(SpecFields, frozen=True):
    """A policy of one port: it replaces these four of the whole service, also where unset."""

    port: PortSelector | None = None
    load_balancer: LoadBalancer | None = None
    connection_pool: ConnectionPool | None = None
    outlier_detection: OutlierDetection | None = None
    tls: ClientTls | None = None


class Tunnel(SpecFields, frozen=True):
    """The target that TCP connections reach through the service, which is a proxy."""

    protocol: str = ""
    """CONNECT or POST; empty: CONNECT."""
    target_host: str = ""
    target_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class ProxyProtocolVersion(StrEnum):
    """The versions of the PROXY protocol."""

    V1 = "V1"
    V2 = "V2"


class ProxyProtocol(SpecFields, frozen=True):
    """The header that tells the service who connects."""

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


class Subset(SpecFields, frozen=True):
    """The endpoints of a service that have certain labels."""

    name: str = ""
    labels: Labels = msgspec.field(default_factory=dict)
    traffic_policy: TrafficPolicy | None = None


class DestinationRuleSpec(SpecFields, frozen=True):
    """How clients connect to a service, and the subsets that it has."""

    host: str = ""
    traffic_policy: TrafficPolicy | None = None
    subsets: tuple[Subset, ...] = ()
    export_to: tuple[str, ...] = ()
    workload_selector: WorkloadSelector | None = None
