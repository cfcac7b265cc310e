"""Services, their ports and endpoints, whatever kind of configuration they came from."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from istio_config.addresses import is_ip
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.proxy_ports import PROXY_PORTS, may_be_own_machine

Labels = tuple[tuple[str, str], ...]
ServiceKey = tuple[str, str]
"""Namespace and host of a service."""


class Registry(StrEnum):
    """The kind of objects that a service comes from, as Istio names it."""

    KUBERNETES = "Kubernetes"
    EXTERNAL = "External"


class Health(StrEnum):
    """How an endpoint is said to be by those who watch it."""

    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    """Ends soon and still answers: only for requests of sessions that it has begun."""
    TERMINATING = "TERMINATING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that clients name."""

    number: int
    name: str
    protocol: Protocol
    target: int
    """The port of endpoints that name no other."""
    has_target: bool = False
    """Whether the object says the target itself, if only to say the same number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address at which a service is served."""

    address: str
    """An IP address, a host name, or `unix:///path`."""
    ports: tuple[tuple[str, int], ...]
    """Names of service ports with the ports listened on; others use their target."""
    namespace: str
    cluster: str = ""
    """The one whose objects it comes from; empty for those of no cluster."""
    labels: Labels = ()
    network: str = ""
    locality: str = ""
    weight: int = 0
    service_account: str = ""
    workload: str = ""
    health: Health = Health.HEALTHY
    node: str = ""
    """The Kubernetes node that it runs on."""
    hostname: str = ""
    """Its own name below that of its service, if it has one."""
    has_named_ports_only: bool = False
    """Whether it serves no ports but those that `ports` names."""
    is_pod: bool = False
    is_network_gateway: bool = False
    """Whether it stands for the endpoints of a network, to which it passes on the mesh's TLS."""
    is_grpc_program: bool = False
    """Whether its pod says that it has no Envoy."""

    def serves(self, port: Port) -> bool:
        """Return whether it serves the service's port, and that leads to no proxy's own pages."""
        if self.has_named_ports_only and all(name != port.name for name, _ in self.ports):
            return False
        return self.port_for(port) not in PROXY_PORTS or not may_be_own_machine(self.address)

    def port_for(self, port: Port) -> int:
        """Return the port on which this endpoint serves the service's port, if it does."""
        for name, number in self.ports:
            if name == port.name:
                return number
        return port.target

    @property
    def has_ip(self) -> bool:
        """Whether its address is one of IP."""
        return is_ip(self.address)

    @property
    def speaks_mutual_tls(self) -> bool:
        """Whether the endpoint has a mesh proxy, by Istio's rule."""
        for key, value in self.labels:
            if key == "security.istio.io/tlsMode":
                return value == "istio"
        return bool(self.service_account) and not self.is_pod

    @property
    def is_proxyless(self) -> bool:
        """Whether the endpoint is a gRPC server without an Envoy, by the name of Istio's template.

        In Istio the template is named by an annotation of the pod; here by a label, too.
        """
        return self.is_grpc_program or ("inject.istio.io/templates", "grpc-agent") in self.labels


@dataclass(frozen=True, kw_only=True)
class Service:
    """One host name of the mesh."""

    host: str
    namespace: str
    name: str
    """The name of the configuration object it comes from."""
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...] = ()
    addresses: tuple[str, ...] = ()
    auto_addresses: tuple[str, ...] = ()
    """Allocated where the service has none, IPv4 before IPv6; for proxies with a name table."""
    resolution: Resolution
    external: bool
    export_to: tuple[str, ...] = ("*",)
    subject_alt_names: tuple[str, ...] = ()
    registry: Registry = Registry.EXTERNAL
    labels: Labels = ()
    """Those of the configuration object."""
    selector: Labels = ()
    """The labels of the workloads that serve it, if they are chosen by labels."""
    accounts: tuple[str, ...] = ()
    """Service accounts of its namespace that serve it, beside those of the endpoints."""
    external_name: str = ""
    """The host that an ExternalName service leads to."""
    aliases: tuple[tuple[str, str], ...] = ()
    """Namespace and host of the ExternalName services that lead here."""
    alias_ports: tuple[tuple[str, int], ...] = ()
    """By their hosts, the ports of those that have a single one."""
    is_node_local: bool = False
    """Whether clients reach only the endpoints on their own node."""
    traffic_distribution: str = ""
    """`PreferClose`, `PreferSameZone` or `PreferSameNode`; empty: not said."""
    session_cookie: str = ""
    """`NAME` or `NAME:PATH` of the cookie that keeps a session at its endpoint."""
    session_header: str = ""
    """The header that does."""
    takes_any_address: bool = True
    """Whether a port of it may be listened for at all addresses, where clients tell no host."""

    @property
    def is_headless(self) -> bool:
        """Whether its name leads to the endpoints themselves."""
        return self.registry is Registry.KUBERNETES and self.resolution is Resolution.NONE

    @property
    def keeps_sessions(self) -> bool:
        """Whether requests of a session stay at their endpoint, also while it is draining."""
        return bool(self.session_cookie or self.session_header)

    def endpoints_of(self, port: Port) -> tuple[Endpoint, ...]:
        """Return the endpoints that serve a port."""
        if port.target not in PROXY_PORTS and not any(
            each.has_named_ports_only or each.ports for each in self.endpoints
        ):
            return self.endpoints
        return tuple(each for each in self.endpoints if each.serves(port))

    @cached_property
    def virtual_addresses(self) -> tuple[str, ...]:
        """The addresses that a proxy can listen on, which ranges are not."""
        return tuple(address for address in self.addresses if is_ip(address))

    @cached_property
    def service_accounts(self) -> tuple[tuple[str, str], ...]:
        """Namespace and name of every account that serves this, sorted."""
        return tuple(
            sorted(
                {(e.namespace, e.service_account) for e in self.endpoints if e.service_account}
                | {(self.namespace, account) for account in self.accounts}
            )
        )

    @property
    def uses_eds(self) -> bool:
        """Whether its endpoints are sent apart from its clusters."""
        return self.resolution is Resolution.STATIC

    @property
    def is_looked_up(self) -> bool:
        """Whether clients find its endpoints by DNS."""
        return self.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)

    def port(self, number: int) -> Port | None:
        """Return the port of a number."""
        return next((each for each in self.ports if each.number == number), None)

    def visible_in(self, namespace: str) -> bool:
        """Return whether the service is exported to this namespace."""
        return any(
            each in ("*", namespace) or (each == "." and self.namespace == namespace)
            for each in self.export_to
        )

    def for_names(self) -> tuple[object, ...]:
        """Return everything that name tables depend on, if the service has addresses of its own."""
        return (
            self.host,
            self.namespace,
            self.name,
            self.registry,
            self.addresses,
            self.auto_addresses,
            self.aliases,
            self.ports,
            self.resolution,
            self.export_to,
            () if self.auto_addresses else self.named_by_endpoints(),
            self.endpoint_names(),
        )

    def named_by_endpoints(self) -> tuple[str, ...]:
        """Return the addresses that its name leads to if the service has none of its own."""
        if self.addresses or not (self.uses_eds or self.is_headless):
            return ()
        return tuple(dict.fromkeys(each.address for each in self._answering()))

    def endpoint_names(self) -> tuple[tuple[str, str], ...]:
        """Return names and addresses of the endpoints of a headless service that have a name."""
        if not self.is_headless:
            return ()
        found = ((each.hostname, each.address) for each in self._answering() if each.hostname)
        return tuple(dict.fromkeys(found))

    def _answering(self) -> Iterator[Endpoint]:
        return (e for e in self.endpoints if e.health is Health.HEALTHY and is_ip(e.address))

    def without_endpoints(self) -> tuple[object, ...]:
        """Return everything that clusters, listeners and routes depend on."""
        endpoints = () if self.uses_eds else self.endpoints
        return (
            self.host,
            self.namespace,
            self.name,
            self.ports,
            self.addresses,
            self.auto_addresses,
            self.resolution,
            self.external,
            self.export_to,
            self.subject_alt_names,
            self.registry,
            self.labels,
            self.selector,
            self.external_name,
            self.service_accounts,
            self.aliases,
            self.alias_ports,
            self.is_node_local,
            self.traffic_distribution,
            self.session_cookie,
            self.session_header,
            self.takes_any_address,
            endpoints,
        )
