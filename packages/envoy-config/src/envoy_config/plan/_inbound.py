"""The ports on which a proxy accepts connections for its own workload."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from envoy_config.plan._proxy import Proxy
from envoy_config.plan.redirected._listeners import LOOPBACKS
from istio_config.addresses import UNIX
from istio_config.kinds.peer_authentication import MutualTlsMode
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.sidecar import (
    CaptureMode,
    IngressListener,
    InstanceEndpoint,
    LoopbackEndpoint,
    OriginalEndpoint,
    SidecarSpec,
    SocketEndpoint,
    parse_default_endpoint,
)
from mesh_model import MeshModel, Port


class Application(NamedTuple):
    """Where the workload's own process listens, and what it speaks."""

    number: int
    """The port on which its proxy accepts for it."""
    address: str
    """An IP address or `unix:///path`."""
    port: int
    """0 for a Unix socket."""
    protocol: Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPort:
    """One address on which a proxy accepts for its workload, and how."""

    bind: str
    number: int
    service_port: int
    protocol: Protocol
    mode: MutualTlsMode
    app_address: str
    """An IP address or `unix:///path`."""
    app_port: int
    host: str = ""
    """Of the service."""

    @property
    def application(self) -> Application:
        """The application behind the port."""
        return Application(self.number, self.app_address, self.app_port, self.protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPlan:
    """The ports that a proxy accepts on for its workload, in order of bind address and number.

    taken: the addresses and ports where the proxy or its workload listens, so that no outbound
    listener can. own: hosts and ports of the services that the workload itself answers there: its
    program finds them without an outbound listener.
    """

    ports: tuple[InboundPort, ...] = ()
    taken: frozenset[tuple[str, int]] = frozenset()
    own: frozenset[tuple[str, int]] = frozenset()


def plan_inbound(proxy: Proxy, model: MeshModel, sidecar: SidecarSpec | None = None) -> InboundPlan:
    """Return the inbound ports of a proxy; of two services that want one port, the older decides.

    Where the application itself listens on the workload's address, there is no port to take: it
    is left out, since Envoy could not bind it. sidecar: the proxy's own; with ingress listeners it
    accepts on no other ports.
    """
    found: dict[tuple[str, int], InboundPort] = {}
    if proxy.is_sidecar:
        ports = (
            _of_ingress(proxy, model, sidecar)
            if sidecar is not None and sidecar.ingress
            else _of_services(proxy, model)
        )
        for port in ports:
            is_application = (port.bind, port.number) == (port.app_address, port.app_port)
            if not is_application and not _is_own(port, proxy):
                found.setdefault((port.bind, port.number), port)
    answered = [
        (service.host, port.number, endpoint.port_for(port))
        for address in proxy.addresses
        for service, endpoint in model.by_address.get((proxy.namespace, address), ())
        for port in service.ports
        if endpoint.serves(port)
    ]
    by_application = {(proxy.app_address, number) for _, _, number in answered}
    by_proxy = {
        place
        for each in found.values()
        for place in ((each.bind, each.number), (each.app_address, each.app_port))
    }
    return InboundPlan(
        ports=tuple(found[key] for key in sorted(found)),
        taken=frozenset(by_application | by_proxy),
        own=frozenset((host, port) for host, port, number in answered if port == number),
    )


def _is_own(port: InboundPort, proxy: Proxy) -> bool:
    """Return whether a port leads to the proxy's own pages or its agent's.

    Where the application has a loopback address of its own, all ports there are the application's.
    """
    if port.app_port not in proxy.own_ports:
        return False
    return port.app_address in (*proxy.addresses, *LOOPBACKS.values(), *_ANY_ADDRESS)


_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def _of_services(proxy: Proxy, model: MeshModel) -> Iterator[InboundPort]:
    for bind, host, port, number, labels in _served(proxy, model):
        if bind != proxy.app_address:
            yield InboundPort(
                bind=bind,
                number=number,
                service_port=port.number,
                protocol=port.protocol,
                mode=model.policies.mode(proxy.namespace, labels, number),
                app_address=proxy.app_address,
                app_port=number,
                host=host,
            )


def _served(proxy: Proxy, model: MeshModel) -> Iterator[tuple[str, str, Port, int, dict[str, str]]]:
    """Yield the workload's addresses with each service's port there, and the endpoint's labels."""
    for bind in proxy.addresses:
        for service, endpoint in model.by_address.get((proxy.namespace, bind), ()):
            labels = {**dict(endpoint.labels), **dict(proxy.labels)}
            for port in service.ports:
                if port.protocol is not Protocol.UDP and endpoint.serves(port):
                    yield bind, service.host, port, endpoint.port_for(port), labels


def _of_ingress(proxy: Proxy, model: MeshModel, sidecar: SidecarSpec) -> Iterator[InboundPort]:
    """Yield the ports of a Sidecar's ingress listeners, which the proxy binds itself."""
    hosts = {
        (bind, number): (host, labels) for bind, host, _, number, labels in _served(proxy, model)
    }
    own = next((labels for _, labels in hosts.values()), dict(proxy.labels))
    for ingress in sidecar.ingress:
        # Redirected connections are not, where nothing is intercepted.
        if ingress.port is None or ingress.capture_mode is CaptureMode.IPTABLES:
            continue
        number = ingress.port.number
        for bind in (ingress.bind,) if ingress.bind else proxy.addresses:
            address, port = _application(ingress, bind, proxy)
            host, labels = hosts.get((bind, number), ("", own))
            yield InboundPort(
                bind=bind,
                number=number,
                service_port=number,
                protocol=ingress.port.known_protocol,
                mode=model.policies.mode(proxy.namespace, labels, number),
                app_address=address,
                app_port=port,
                host=host,
            )


def _application(ingress: IngressListener, bind: str, proxy: Proxy) -> tuple[str, int]:
    """Return the address and port of the workload behind an ingress listener."""
    match parse_default_endpoint(ingress.default_endpoint):
        case SocketEndpoint(path=path):
            return f"{UNIX}{path}", 0
        case LoopbackEndpoint(address=address, port=port):
            return address, port
        case InstanceEndpoint(port=port):
            return bind if bind in proxy.addresses else proxy.addresses[0], port
        case OriginalEndpoint() | None:
            return proxy.app_address, ingress.port.number if ingress.port is not None else 0
