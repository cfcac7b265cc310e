"""The listeners that gRPC programs without an Envoy ask for, by name.

A client asks for `xds:///HOST:PORT` by the listener name `HOST:PORT`, a server that listens on an
address by `xds.istio.io/grpc/lds/inbound/ADDRESS:PORT`. The names are Istio's.

A gRPC server can't tell TLS from plaintext on one port (gRFC A36: filter chains that match `tls`
are never chosen). On a PERMISSIVE port it serves plaintext, as under Istio.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from envoy_config.plan._envoy_names import short_names
from envoy_config.plan._proxy import Proxy
from envoy_config.plan._traffic_policy import NO_POLICY, Policy, effective_policy
from istio_config.addresses import is_ip, split_host_port
from istio_config.kinds.destination_rule import ClientTlsMode
from istio_config.kinds.peer_authentication import MutualTlsMode
from istio_config.kinds.protocol import Protocol
from mesh_model import Endpoint, Health, MeshModel, Port, Rule, Scope, Service

INBOUND_PREFIX = "xds.istio.io/grpc/lds/inbound/"


class Target(NamedTuple):
    """A service's port that a gRPC client calls, or a subset there, and the rule by which it does.

    policy: the rule's, for the port and the subset.
    """

    service: Service
    port: Port
    subset: str = ""
    rule: Rule | None = None
    policy: Policy = NO_POLICY

    @property
    def cluster(self) -> str:
        """The name of its cluster, and of its route and endpoints."""
        return f"outbound|{self.port.number}|{self.subset}|{self.service.host}"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The healthy endpoints of the port; of a subset, those with its labels."""
        found = tuple(
            each for each in self.service.endpoints_of(self.port) if each.health is Health.HEALTHY
        )
        chosen = self.rule.subsets.get(self.subset) if self.rule is not None else None
        if not self.subset or chosen is None:
            return found
        wanted = chosen.labels.items()
        return tuple(each for each in found if wanted <= dict(each.labels).items())


class Server(NamedTuple):
    """An address that a gRPC server listens on, and which connections it accepts there."""

    address: str
    port: int
    uses_mutual_tls: bool


class NotServed(NamedTuple):
    """The reason why there is no listener of a name."""

    reason: str


def is_server(name: str) -> bool:
    """Return whether a listener's name is that of a server's address."""
    return name.startswith(INBOUND_PREFIX)


def plan_client(name: str, *, scope: Scope, domain: str, model: MeshModel) -> Target | NotServed:
    """Find the service's port that a client means by the name of a listener.

    scope, domain: the program's.
    """
    place = _host_port(name)
    if place is None:
        return NotServed("the name is not HOST:PORT")
    host, port = place[0].lower(), place[1]
    service = _service(host, domain, scope.services)
    if service is None:
        return NotServed(
            f"no service that namespace {scope.key.namespace} sees has the host {host}"
        )
    return plan_target(service, port, scope=scope, model=model)


def plan_target(
    service: Service, number: int, subset: str = "", *, scope: Scope, model: MeshModel
) -> Target | NotServed:
    """Find a port of a service, or a subset there, if gRPC can reach it."""
    port = service.port(number)
    if port is None or port.protocol is Protocol.UDP:
        ports = [str(each.number) for each in service.ports if each.protocol is not Protocol.UDP]
        return NotServed(
            f"the service {service.host} has no TCP port {number}, but {', '.join(ports) or 'none'}"
        )
    if not (service.uses_eds or service.is_headless or service.is_looked_up):
        return NotServed(
            f"the service {service.host} has resolution {service.resolution}, which gRPC can't "
            "follow"
        )
    if service.is_looked_up and len(service.endpoints) != 1:
        return NotServed(
            f"the service {service.host} is found by DNS and has {len(service.endpoints)} "
            "endpoints: gRPC takes exactly one"
        )
    rule = scope.rule(service)
    if subset and (rule is None or subset not in rule.subsets):
        return NotServed(f"no DestinationRule has a subset {subset} of {service.host}")
    policy = effective_policy(rule, number, subset, model)
    if policy.tls is not None and policy.tls.mode in (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL):
        return NotServed(
            f"a DestinationRule has {service.host} reached by TLS of mode {policy.tls.mode}, which "
            "gRPC can't be told: give the program's channel credentials of its own"
        )
    return Target(service, port, subset, rule, policy)


def plan_server(name: str, proxy: Proxy, model: MeshModel) -> Server | NotServed:
    """Find what a server at the address in a listener's name accepts.

    It is an endpoint of a service by its port; it may listen on every address of its machine.
    """
    place = _host_port(name.removeprefix(INBOUND_PREFIX))
    if place is None or not is_ip(place[0]):
        return NotServed(f"the name is not {INBOUND_PREFIX}ADDRESS:PORT")
    address, number = place
    for own in proxy.addresses:
        for service, endpoint in model.by_address.get((proxy.namespace, own), ()):
            labels = {**dict(endpoint.labels), **dict(proxy.labels)}
            for port in service.ports:
                if port.protocol is Protocol.UDP or not endpoint.serves(port):
                    continue
                if endpoint.port_for(port) == number:
                    mode = model.policies.mode(proxy.namespace, labels, number)
                    return Server(address, number, mode is MutualTlsMode.STRICT)
    return NotServed(
        f"no service of namespace {proxy.namespace} has an endpoint at "
        f"{' or '.join(proxy.addresses)} with port {number}"
    )


def _host_port(text: str) -> tuple[str, int] | None:
    try:
        host, port = split_host_port(text)
    except ValueError:
        return None
    return (host, port) if host and port else None


def _service(host: str, domain: str, visible: Mapping[str, Service]) -> Service | None:
    if (service := visible.get(host)) is not None:
        return service
    for full in _completed(host, domain):
        service = visible.get(full)
        if service is not None and host in short_names(full, domain):
            return service
    return None


def _completed(host: str, domain: str) -> Iterator[str]:
    """Yield the full names that a short one may stand for: the inverse of `short_names`."""
    mesh_domain = domain.partition(".")[2]
    yield f"{host}.{domain}"
    yield f"{host}.{mesh_domain}"
    if host.endswith(".svc"):
        yield f"{host.removesuffix('.svc')}.{mesh_domain}"
