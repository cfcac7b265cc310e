"""The verdicts that a configuration asks for, as questions in prose order: no rule is looked at."""

from mesh_traffic_capture import (
    ALL,
    CaptureConfig,
    ConnectionState,
    Direction,
    Mode,
    Outcome,
    Packet,
    Protocol,
)

Wanted = tuple[Outcome, int | None]
_UNTOUCHED: Wanted = (Outcome.UNTOUCHED, None)


def wanted(config: CaptureConfig, packet: Packet) -> Wanted:
    """Return the outcome, and the port of the proxy or the agent."""
    if packet.destination.version == 6 and not config.ipv6:
        return _UNTOUCHED
    if packet.direction is Direction.INBOUND:
        return _inbound(config, packet)
    verdict = _UNTOUCHED
    if packet.state is ConnectionState.NEW:
        verdict = _outbound(config, packet)
    if verdict == _UNTOUCHED and packet.interface == "lo":
        return _mangled(config, packet, _mark_of_sent(config, packet))
    return verdict


def _matches(names: tuple[str, ...], interface: str) -> bool:
    return any(
        interface.startswith(name[:-1]) if name[-1] == "+" else interface == name for name in names
    )


def _is_proxy(config: CaptureConfig, packet: Packet) -> bool:
    return packet.uid in config.proxy_uids or packet.gid in config.proxy_gids


def _to_loopback(config: CaptureConfig, packet: Packet) -> bool:
    return str(packet.destination) == "::1" or packet.destination in config.loopback


def _passed_on(packet: Packet) -> bool:
    return packet.interface == "lo" and str(packet.source) in {"127.0.0.6", "::6"}


def _mark_of_sent(config: CaptureConfig, packet: Packet) -> int:
    """Return the mark after the rules for what is sent."""
    tcp_by_lo = packet.protocol is Protocol.TCP and packet.interface == "lo"
    if (
        config.mode is Mode.TPROXY
        and tcp_by_lo
        and packet.mark != config.tproxy_mark
        and _is_proxy(config, packet)
        and not _to_loopback(config, packet)
    ):
        return 1338
    return packet.mark


def _outbound(  # noqa: PLR0911 - questions in the order in which they are asked
    config: CaptureConfig, packet: Packet
) -> Wanted:
    tcp = packet.protocol is Protocol.TCP
    by_lo = packet.interface == "lo"
    port = packet.destination_port
    dns = None if 53 in config.excluded_outbound_ports else config.dns
    if config.mode is Mode.TPROXY and by_lo and tcp and packet.mark == config.tproxy_mark:
        return _UNTOUCHED
    if _matches(config.excluded_interfaces, packet.interface):
        return _UNTOUCHED
    if port in config.excluded_outbound_ports or _passed_on(packet):
        return _UNTOUCHED
    if _is_proxy(config, packet):
        own_port = port == config.tunnel_port or (dns is not None and port == 53)
        if by_lo and tcp and not own_port and not _to_loopback(config, packet):
            return Outcome.REDIRECTED, config.inbound_port
        return _UNTOUCHED
    loopback_named = config.outbound_ranges is not ALL and any(
        each.is_loopback for each in config.outbound_ranges
    )
    if by_lo and not loopback_named and (dns is None or (tcp and port != 53)):
        return _UNTOUCHED
    in_group = (
        packet.gid not in config.excluded_groups
        if config.groups is ALL
        else packet.gid in config.groups
    )
    if not in_group:
        return _UNTOUCHED
    asks = dns is not None and port == 53
    if dns is not None and asks and (dns.servers is ALL or packet.destination in dns.servers):
        return Outcome.REDIRECTED, dns.port
    if _to_loopback(config, packet):
        return _UNTOUCHED
    if any(packet.destination in each for each in config.excluded_outbound_ranges):
        return _UNTOUCHED
    if tcp and (
        port in config.outbound_ports
        or config.outbound_ranges is ALL
        or any(packet.destination in each for each in config.outbound_ranges)
    ):
        return Outcome.REDIRECTED, config.outbound_port
    return _UNTOUCHED


def _inbound(config: CaptureConfig, packet: Packet) -> Wanted:  # noqa: PLR0911 - as above
    verdict = _mangled(config, packet, packet.mark)
    if verdict[0] is Outcome.DROPPED or packet.state is not ConnectionState.NEW:
        return verdict
    # What nat redirects is no more for the socket that TPROXY found; it is the later word.
    if packet.protocol is not Protocol.TCP:
        return verdict
    if _matches(config.virtual_interfaces, packet.interface):
        if config.outbound_ranges is ALL or any(
            packet.destination in each for each in config.outbound_ranges
        ):
            return Outcome.REDIRECTED, config.outbound_port
        return verdict
    excluded = _matches(config.excluded_interfaces, packet.interface)
    if config.mode is Mode.REDIRECT and not excluded:
        if _is_inbound_port(config, packet.destination_port):
            return Outcome.REDIRECTED, config.inbound_port
        return verdict
    return verdict


def _is_inbound_port(config: CaptureConfig, port: int) -> bool:
    if port == config.tunnel_port:
        return False
    if config.inbound_ports is ALL:
        return port not in config.excluded_inbound_ports
    return port in config.inbound_ports


def _mangled(config: CaptureConfig, packet: Packet, mark: int) -> Wanted:
    tproxy = config.mode is Mode.TPROXY
    if tproxy and _matches(config.excluded_interfaces, packet.interface):
        return _UNTOUCHED
    if config.drop_invalid and packet.state is ConnectionState.INVALID:
        return Outcome.DROPPED, None
    if not tproxy or packet.protocol is not Protocol.TCP or mark == config.tproxy_mark:
        return _UNTOUCHED
    if _passed_on(packet) or (packet.interface == "lo" and mark != 1338):
        return _UNTOUCHED
    if _is_inbound_port(config, packet.destination_port) and not _to_loopback(config, packet):
        return Outcome.TPROXIED, config.inbound_port
    return _UNTOUCHED
