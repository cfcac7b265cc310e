"""The listeners that gRPC programs without an Envoy ask for, by name.

A client asks for `xds:///HOST:PORT` by the listener name `HOST:PORT`, a server that listens on an
address by `xds.istio.io/grpc/lds/inbound/ADDRESS:PORT`. The names are Istio's.

A gRPC server can't tell TLS from plaintext on one port (gRFC A36: filter chains that match `tls`
are never chosen). On a PERMISSIVE port it serves plaintext, as under Istio.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mesh_discovery._addresses import is_ip, split_host_port
from mesh_discovery.config.kinds._peer_authentication import MutualTlsMode
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._service_entry import Resolution
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Port, Service
from mesh_discovery.plan._envoy_names import short_names
from mesh_discovery.plan._proxy import Proxy

INBOUND_PREFIX = "xds.istio.io/grpc/lds/inbound/"


class Target(NamedTuple):
    """A service's port that a gRPC client calls."""

    service: Service
    port: Port


class Server(NamedTuple):
    """An address that a gRPC server listens on, and which connections it accepts there."""

    address: str
    port: int
    uses_mutual_tls: bool


class NotServed(NamedTuple):
    """The reason why there is no listener of a name."""

    reason: str


def is_server(name: str) -> bool:
    """Tell whether a listener's name is that of a server's address."""
    return name.startswith(INBOUND_PREFIX)


def plan_client(
    name: str, *, namespace: str, domain: str, visible: Mapping[str, Service]
) -> Target | NotServed:
    """Find the service's port that a client means by the name of a listener.

    namespace, domain: the proxy's. visible: the services that its namespace knows, by host.
    """
    place = _host_port(name)
    if place is None:
        return NotServed("the name is not HOST:PORT")
    host, port = place[0].lower(), place[1]
    service = _service(host, domain, visible)
    if service is None:
        return NotServed(f"no service that namespace {namespace} sees has the host {host}")
    return plan_target(service, port)


def plan_target(service: Service, number: int) -> Target | NotServed:
    """Find a port of a service, if gRPC can reach it."""
    port = service.port(number)
    if port is None or port.protocol is Protocol.UDP:
        ports = [str(each.number) for each in service.ports if each.protocol is not Protocol.UDP]
        return NotServed(
            f"the service {service.host} has no TCP port {number}, but {', '.join(ports) or 'none'}"
        )
    if service.resolution is Resolution.NONE:
        return NotServed(f"the service {service.host} has resolution NONE, which gRPC can't follow")
    if not service.uses_eds and len(service.endpoints) != 1:
        return NotServed(
            f"the service {service.host} is found by DNS and has {len(service.endpoints)} "
            "endpoints: gRPC takes exactly one"
        )
    return Target(service, port)


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
                if port.protocol is not Protocol.UDP and endpoint.port_for(port) == number:
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
