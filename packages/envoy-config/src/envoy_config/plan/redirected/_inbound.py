"""Plans what redirected proxies accept for their workload: the ports of its services, and others.

All connections come to one listener. A port that is no service's has chains by the mode of the
whole workload, and by its own if a PeerAuthentication names it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envoy_config.plan._proxy import Proxy
from envoy_config.plan.redirected._chain_kinds import ChainKind, Traffic, chain_kinds, traffic_of
from envoy_config.plan.redirected._listeners import LOOPBACKS, IpVersions, ip_versions
from istio_config.addresses import UNIX
from istio_config.kinds.mesh_config import InboundTrafficPolicyMode, InterceptionMode
from istio_config.kinds.peer_authentication import MutualTlsMode
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.sidecar import (
    CaptureMode,
    InstanceEndpoint,
    LoopbackEndpoint,
    OriginalEndpoint,
    SidecarSpec,
    SocketEndpoint,
    parse_default_endpoint,
)
from mesh_model import Labels, MeshModel


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectedPort:
    """A port of the workload that some service leads to."""

    number: int
    """The port of the workload, which services may give another number."""
    service_port: int
    host: str
    protocol: Protocol
    mode: MutualTlsMode
    app: tuple[str, int] | None = None
    """Where the workload listens, by an IP address, or by `unix:///path` and 0; None: where
    connections were going."""
    bind: str = ""
    """The address that the proxy binds for this port alone; empty: connections are led to it."""

    @property
    def is_grpc_web(self) -> bool:
        """Whether calls of gRPC-Web come."""
        return self.protocol is Protocol.GRPC_WEB

    @property
    def kinds(self) -> tuple[ChainKind, ...]:
        """The chains of the port."""
        return chain_kinds(traffic_of(self.protocol), self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPort:
    """Ports that no service leads to: one, or all that are not named."""

    number: int | None
    mode: MutualTlsMode

    @property
    def kinds(self) -> tuple[ChainKind, ...]:
        """The chains of the port."""
        return chain_kinds(Traffic.AUTO, self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectedInbound:
    """All that a proxy accepts for its workload; proxies for which it is equal share a listener."""

    ips: IpVersions
    ports: tuple[RedirectedPort, ...]
    """In order of their numbers."""
    others: tuple[OtherPort, ...]
    """The rest first, then single ports."""
    closed: tuple[int, ...] = ()
    """Ports of the proxy's own to which some service or ingress listener leads: nothing passes."""
    keeps_source: bool
    """Whether the application sees the client's address."""


def plan_redirected_inbound(
    proxy: Proxy, model: MeshModel, sidecar: SidecarSpec | None = None
) -> RedirectedInbound:
    """Return what a proxy accepts; of two services with one port, the older decides.

    sidecar: the proxy's own. Its ingress listeners replace the ports of services.
    """
    found: dict[int, RedirectedPort] = {}
    own: Labels | None = None
    ips = ip_versions(proxy.addresses)
    inbound_policy = model.mesh_config.inbound_traffic_policy.mode
    is_local = inbound_policy is InboundTrafficPolicyMode.LOCALHOST
    for address in proxy.addresses:
        for service, endpoint in model.by_address.get((proxy.namespace, address), ()):
            labels = {**dict(endpoint.labels), **dict(proxy.labels)}
            own = own or tuple(labels.items())
            for port in service.ports:
                number = endpoint.port_for(port)
                if port.protocol is Protocol.UDP or number in found or not endpoint.serves(port):
                    continue
                found[number] = RedirectedPort(
                    number=number,
                    service_port=port.number,
                    host=service.host,
                    protocol=port.protocol,
                    mode=model.policies.mode(proxy.namespace, labels, number),
                    app=(LOOPBACKS[ips.versions[0]], number) if is_local else None,
                )
    labels = dict(own or proxy.labels)
    leading = set(found)
    if sidecar is not None and sidecar.ingress:
        found = {each.number: each for each in _of_ingress(sidecar, found, proxy, labels, model)}
    leading |= found.keys()
    found = {number: each for number, each in found.items() if not _is_own(each, proxy)}
    closed = tuple(sorted(leading & proxy.own_ports - found.keys()))
    named = model.policies.port_modes(proxy.namespace, labels)
    return RedirectedInbound(
        ips=ips,
        ports=tuple(found[number] for number in sorted(found)),
        others=(
            OtherPort(number=None, mode=model.policies.workload_mode(proxy.namespace, labels)),
            *(
                OtherPort(number=number, mode=mode)
                for number, mode in sorted(named.items())
                if number not in found and number not in closed
            ),
        ),
        closed=closed,
        keeps_source=proxy.interception is InterceptionMode.TPROXY,
    )


def _is_own(port: RedirectedPort, proxy: Proxy) -> bool:
    """Return whether a port leads to the proxy's own pages or its agent's."""
    number = port.number if port.app is None else port.app[1]
    return number in proxy.own_ports


def _of_ingress(
    sidecar: SidecarSpec,
    of_services: Mapping[int, RedirectedPort],
    proxy: Proxy,
    labels: dict[str, str],
    model: MeshModel,
) -> Iterator[RedirectedPort]:
    """Yield the ports that a Sidecar has ingress listeners for."""
    first = next(iter(of_services.values()), None)
    for each in sidecar.ingress:
        if each.port is None:
            continue
        number = each.port.number
        known = of_services.get(number, first)
        bind = ""
        if each.capture_mode is CaptureMode.NONE:
            bind = each.bind or proxy.addresses[0]
        yield RedirectedPort(
            number=number,
            service_port=number,
            host=known.host if known is not None else "",
            protocol=each.port.known_protocol,
            mode=model.policies.mode(proxy.namespace, labels, number),
            app=_application(each.default_endpoint, proxy),
            bind=bind,
        )


def _application(default_endpoint: str, proxy: Proxy) -> tuple[str, int] | None:
    match parse_default_endpoint(default_endpoint):
        case SocketEndpoint(path=path):
            return f"{UNIX}{path}", 0
        case LoopbackEndpoint(address=address, port=port):
            return address, port
        case InstanceEndpoint(port=port):
            return proxy.addresses[0], port
        case OriginalEndpoint() | None:
            return None
