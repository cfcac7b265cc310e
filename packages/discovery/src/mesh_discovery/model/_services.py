"""Services, their ports and endpoints, whatever kind of configuration they came from."""

from dataclasses import dataclass
from functools import cached_property

from mesh_discovery._addresses import is_ip
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._service_entry import Resolution

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that clients name."""

    number: int
    name: str
    protocol: Protocol
    target: int
    """The port of endpoints that name no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address at which a service is served."""

    address: str
    """An IP address, a host name, or `unix:///path`."""
    ports: tuple[tuple[str, int], ...]
    """Names of service ports with the ports listened on; others use their target."""
    namespace: str
    labels: Labels = ()
    network: str = ""
    locality: str = ""
    weight: int = 0
    service_account: str = ""
    workload: str = ""

    def port_for(self, port: Port) -> int:
        """Return the port on which this endpoint serves the service's port."""
        for name, number in self.ports:
            if name == port.name:
                return number
        return port.target

    @property
    def speaks_mutual_tls(self) -> bool:
        """Whether the endpoint has a mesh proxy, by Istio's rule."""
        for key, value in self.labels:
            if key == "security.istio.io/tlsMode":
                return value == "istio"
        return bool(self.service_account)

    @property
    def is_proxyless(self) -> bool:
        """Whether the endpoint is a gRPC server without an Envoy, by the name of Istio's template.

        In Istio the template is named by an annotation of the pod; here it is a label.
        """
        return ("inject.istio.io/templates", "grpc-agent") in self.labels


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

    @cached_property
    def virtual_addresses(self) -> tuple[str, ...]:
        """The addresses that a proxy can listen on, which ranges are not."""
        return tuple(address for address in self.addresses if is_ip(address))

    @cached_property
    def service_accounts(self) -> tuple[tuple[str, str], ...]:
        """Namespace and name of every account that serves this, sorted."""
        return tuple(
            sorted({(e.namespace, e.service_account) for e in self.endpoints if e.service_account})
        )

    @property
    def uses_eds(self) -> bool:
        """Whether its endpoints are sent apart from its clusters."""
        return self.resolution is Resolution.STATIC

    def port(self, number: int) -> Port | None:
        """Return the port of a number."""
        return next((each for each in self.ports if each.number == number), None)

    def visible_in(self, namespace: str) -> bool:
        """Whether the service is exported to this namespace."""
        return any(
            each in ("*", namespace) or (each == "." and self.namespace == namespace)
            for each in self.export_to
        )

    def for_names(self) -> tuple[object, ...]:
        """Return everything that name tables depend on, if the service has addresses of its own."""
        return (
            self.host,
            self.namespace,
            self.addresses,
            self.auto_addresses,
            self.ports,
            self.resolution,
            self.export_to,
            () if self.auto_addresses else self.named_by_endpoints(),
        )

    def named_by_endpoints(self) -> tuple[str, ...]:
        """Return the addresses that its name leads to if the service has none of its own."""
        if self.addresses or not self.uses_eds:
            return ()
        return tuple(dict.fromkeys(e.address for e in self.endpoints if is_ip(e.address)))

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
            self.service_accounts,
            endpoints,
        )
