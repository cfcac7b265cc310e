"""The servers of a router's Gateways, merged by the address and port where they listen.

Several Gateways may want one port. The oldest has it, others join where Envoy can tell their
connections apart: plain HTTP by Host, TLS by SNI. A server that finds no place is left out whole,
with the reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from istio_config.kinds.gateway import Server, ServerHost, TlsMode, parse_server_host
from istio_config.kinds.protocol import Protocol
from mesh_model import Gateway

_PRIVILEGED = 1024
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - compared with, not bound


class ListenAddress(NamedTuple):
    """Where a listener is bound; bind: empty for every address of the router."""

    port: int
    bind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """One server at one port of a router."""

    namespace: str
    """Of its Gateway."""
    gateway: str
    """The name of its Gateway."""
    index: int
    """Its number among the servers of its Gateway."""
    server: Server
    hosts: tuple[ServerHost, ...]
    protocol: Protocol
    address: ListenAddress

    @property
    def gateway_key(self) -> str:
        """The name by which VirtualServices are bound to its Gateway."""
        return f"{self.namespace}/{self.gateway}"

    @property
    def tls_mode(self) -> TlsMode | None:
        """How it treats TLS; None if it is plain."""
        return self.server.tls.mode if self.server.tls is not None and self.is_tls else None

    @property
    def is_tls(self) -> bool:
        """Whether clients speak TLS to it."""
        return self.protocol.is_tls

    @property
    def ends_tls(self) -> bool:
        """Whether the router itself is the server of TLS."""
        return self.tls_mode is not None and self.tls_mode.terminates

    @property
    def is_http(self) -> bool:
        """Whether the router sees requests."""
        if self.protocol is Protocol.HTTPS:
            return self.ends_tls
        return self.protocol.is_http

    @property
    def redirects(self) -> bool:
        """Whether plain requests are redirected to HTTPS."""
        tls = self.server.tls
        return self.is_http and not self.is_tls and tls is not None and tls.https_redirect

    @property
    def route(self) -> str:
        """The name of its route configuration; empty if it has none."""
        if not self.is_http:
            return ""
        suffix = f".{self.address.bind}" if self.address.bind else ""
        if not self.is_tls:
            return f"http.{self.address.port}{suffix}"
        port = self.server.port
        return f"https.{port.number}.{port.name}.{self.gateway}.{self.namespace}{suffix}"

    @property
    def server_names(self) -> tuple[str, ...]:
        """The SNI names that it answers to, sorted; empty: all."""
        names = {each.host for each in self.hosts}
        return () if "*" in names else tuple(sorted(names))


class LeftOut(NamedTuple):
    """A server that a router does not open, and why."""

    namespace: str
    gateway: str
    server_index: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedListener:
    """The servers that share an address and port, in the order of their Gateways."""

    address: ListenAddress
    servers: tuple[PlannedServer, ...]


@dataclass(frozen=True, kw_only=True)
class RouterPlan:
    """Where a router listens, and the servers that it leaves out."""

    listeners: tuple[PlannedListener, ...]
    """Oldest first, by the first server of each."""
    left_out: tuple[LeftOut, ...] = ()
    by_route: Mapping[str, tuple[PlannedServer, ...]] = field(default_factory=dict)
    """The servers that a route configuration is for."""


def plan_router(
    gateways: Iterable[Gateway],
    *,
    target_ports: Mapping[int, tuple[int, ...]],
    unprivileged: bool = False,
) -> RouterPlan:
    """Decide where a router listens for its Gateways, the oldest first.

    target_ports: the ports of the services that the router serves, with those that it listens on
    for each. unprivileged: it can't listen on ports below 1024.
    """
    addresses: dict[ListenAddress, _Servers] = {}
    left_out: list[LeftOut] = []
    for gateway in gateways:
        for index, server in enumerate(gateway.spec.servers):
            for number in target_ports.get(server.port.number, (server.port.number,)):
                planned = _planned(gateway, index, server, number)
                reason = _below_1024(planned.address) if unprivileged else None
                if reason is None:
                    at = addresses.setdefault(planned.address, _Servers())
                    reason = at.add(planned)
                if reason is not None:
                    left_out.append(LeftOut(gateway.namespace, gateway.name, index, reason))
    listeners = tuple(
        PlannedListener(address=address, servers=tuple(at.servers))
        for address, at in addresses.items()
        if at.servers
    )
    return RouterPlan(listeners=listeners, left_out=tuple(left_out), by_route=_by_route(listeners))


def _planned(gateway: Gateway, index: int, server: Server, number: int) -> PlannedServer:
    hosts = (parse_server_host(each, gateway.namespace) for each in server.hosts)
    bind = "" if server.bind == _EVERYWHERE else server.bind
    return PlannedServer(
        namespace=gateway.namespace,
        gateway=gateway.name,
        index=index,
        server=server,
        hosts=tuple(dict.fromkeys(hosts)),
        protocol=Protocol.parse(server.port.protocol) or Protocol.TCP,
        address=ListenAddress(number, bind),
    )


def _below_1024(address: ListenAddress) -> str | None:
    if 0 < address.port < _PRIVILEGED:
        return (
            f"port {address.port} is below {_PRIVILEGED}, where an unprivileged router can't listen"
        )
    return None


def _by_route(listeners: Iterable[PlannedListener]) -> dict[str, tuple[PlannedServer, ...]]:
    found: dict[str, list[PlannedServer]] = {}
    for listener in listeners:
        for server in listener.servers:
            if server.route:
                found.setdefault(server.route, []).append(server)
    return {route: tuple(servers) for route, servers in found.items()}


class _Servers:
    """The servers at one place."""

    def __init__(self) -> None:
        self.servers: list[PlannedServer] = []
        self._plain: PlannedServer | None = None
        self._hosts: dict[ServerHost, PlannedServer] = {}
        self._names: dict[str, PlannedServer] = {}
        self._routes: dict[str, PlannedServer] = {}

    def add(self, server: PlannedServer) -> str | None:
        """Take a server in, or return the reason why it has no place here."""
        reason = self._hosts_taken(server) or self._conflict(server)
        if reason is None:
            self._take(server)
        return reason

    def _take(self, server: PlannedServer) -> None:
        self.servers.append(server)
        if server.server.tls is not None:
            for host in server.hosts:
                self._hosts[host] = server
                if server.ends_tls:
                    self._names[host.host] = server
        if not server.is_tls:
            self._plain = self._plain or server
        if server.route:
            self._routes[server.route] = server

    def _hosts_taken(self, server: PlannedServer) -> str | None:
        if server.server.tls is None:
            return None
        for host in server.hosts:
            other = self._hosts.get(host)
            if other is None and server.ends_tls:
                # Namespaces do not tell connections apart: Envoy refuses a listener with two
                # filter chains of one SNI name.
                other = self._names.get(host.host)
            if other is not None:
                return f"its host {host} on port {server.address.port} is that of {_named(other)}"
        return None

    def _conflict(self, server: PlannedServer) -> str | None:
        port = server.address.port
        if server.is_tls:
            if self.servers and not self.servers[0].is_tls:
                return (
                    f"port {port} has the plain {self.servers[0].protocol} server of "
                    f"{_named(self.servers[0])}"
                )
            other = self._routes.get(server.route) if server.route else None
            if other is not None:
                return f"{_named(other)} has the same port and name"
            return None
        plain = self._plain
        if plain is not None and not (plain.is_http and server.is_http):
            return f"port {port} has the {plain.protocol} server of {_named(plain)}"
        return None


def _named(server: PlannedServer) -> str:
    return f"servers[{server.index}] of Gateway {server.gateway_key}"
