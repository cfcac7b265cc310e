"""The rules for what comes in, and those by which TPROXY gets answers back to the proxy."""

from __future__ import annotations

from mesh_traffic_capture.config import ALL, SELF_CALL_MARK, CaptureConfig, Mode
from mesh_traffic_capture.rules._networks import address_families, loopback, passed_on
from mesh_traffic_capture.rules._outbound import outbound_rules, proxy_rules
from mesh_traffic_capture.rules._rule import (
    ACCEPT,
    DROP,
    RESTORE_MARK,
    RETURN,
    SAVE_MARK,
    Chain,
    ConnectionState,
    Hook,
    Match,
    Protocol,
    Rule,
    Table,
    Verdict,
    VerdictKind,
    goto,
    jump,
    redirect,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSWERED = frozenset({ConnectionState.ESTABLISHED, ConnectionState.RELATED})
_LO = "lo"


def inbound_chains(config: CaptureConfig) -> Iterator[Chain]:
    """Yield the chains for inbound traffic, without those that have no rule."""
    yield Chain(
        name="nat-prerouting",
        table=Table.NAT,
        hook=Hook.PREROUTING,
        rules=(*_from_machines(config), *_excluded(config), *_to_proxy(config)),
    )
    yield Chain(
        name="mangle-prerouting",
        table=Table.MANGLE,
        hook=Hook.PREROUTING,
        rules=tuple(_mangled(config)),
    )
    if config.mode is not Mode.TPROXY:
        return
    mark = Verdict(kind=VerdictKind.SET_MARK, mark=config.tproxy_mark)
    if config.inbound_ports:
        yield Chain(
            name="mangle-divert",
            table=Table.MANGLE,
            rules=(
                Rule(name="to-open-connection", verdict=mark),
                Rule(name="to-open-connection", verdict=ACCEPT),
            ),
        )
    yield Chain(
        name="mangle-output",
        table=Table.MANGLE,
        hook=Hook.OUTPUT,
        rules=tuple(_routed_back(config)),
    )
    yield Chain(name="mangle-proxy", table=Table.MANGLE, rules=tuple(_marked(config)))


def _from_machines(config: CaptureConfig) -> Iterator[Rule]:
    """Yield the rules for interfaces of virtual machines, which are stronger than all others."""
    for interface in config.virtual_interfaces:
        yield from outbound_rules(config, name="virtual-machine", in_interface=interface)
    for interface in config.virtual_interfaces:
        yield Rule(
            name="virtual-machine-other", match=Match(in_interface=interface), verdict=RETURN
        )


def _excluded(config: CaptureConfig) -> Iterator[Rule]:
    for interface in config.excluded_interfaces:
        yield Rule(name="excluded-interface", match=Match(in_interface=interface), verdict=RETURN)


def _to_proxy(config: CaptureConfig) -> Iterator[Rule]:
    if not config.inbound_ports or config.mode is Mode.TPROXY:
        return
    yield from _not_to_proxy(config)
    yield Rule(
        name="inbound",
        match=_inbound(config),
        verdict=redirect(config.inbound_port),
    )


def _inbound(config: CaptureConfig) -> Match:
    if config.inbound_ports is ALL:
        return Match(protocol=Protocol.TCP)
    return Match(protocol=Protocol.TCP, ports=config.inbound_ports)


def _not_to_proxy(config: CaptureConfig) -> Iterator[Rule]:
    yield Rule(
        name="tunnel",
        match=Match(protocol=Protocol.TCP, ports=frozenset({config.tunnel_port})),
        verdict=RETURN,
    )
    if config.inbound_ports is ALL and config.excluded_inbound_ports:
        yield Rule(
            name="excluded-inbound-port",
            match=Match(protocol=Protocol.TCP, ports=config.excluded_inbound_ports),
            verdict=RETURN,
        )


def _mangled(config: CaptureConfig) -> Iterator[Rule]:
    tproxy = config.mode is Mode.TPROXY
    if tproxy:
        yield from _excluded(config)
    if config.drop_invalid:
        yield Rule(
            name="invalid",
            match=Match(states=frozenset({ConnectionState.INVALID})),
            verdict=DROP,
        )
    if not tproxy:
        return
    marked = Match(protocol=Protocol.TCP, mark=config.tproxy_mark)
    # The application's answers go to the client's address, and must come back to Envoy: the
    # connection remembers the mark of Envoy's packets.
    yield Rule(name="passed-on-by-mark", match=marked, verdict=SAVE_MARK)
    if not config.inbound_ports:
        return
    yield Rule(name="passed-on-by-mark", match=marked, verdict=RETURN)
    for family in address_families(config):
        yield Rule(
            name="passed-on",
            match=Match(family=family, in_interface=_LO, source=(passed_on(family),)),
            verdict=RETURN,
        )
    yield Rule(
        name="self-call",
        match=Match(in_interface=_LO, not_mark=SELF_CALL_MARK),
        verdict=RETURN,
    )
    yield from _not_to_proxy(config)
    inbound = _inbound(config)
    yield Rule(
        name="to-open-connection",
        match=Match(protocol=Protocol.TCP, ports=inbound.ports, states=_ANSWERED),
        verdict=goto("mangle-divert"),
    )
    for family in address_families(config):
        yield Rule(
            name="inbound",
            match=Match(
                family=family,
                protocol=Protocol.TCP,
                ports=inbound.ports,
                not_destination=loopback(config, family),
            ),
            verdict=Verdict(
                kind=VerdictKind.TPROXY, port=config.inbound_port, mark=config.tproxy_mark
            ),
        )


def _routed_back(config: CaptureConfig) -> Iterator[Rule]:
    for interface in config.excluded_interfaces:
        yield Rule(name="excluded-interface", match=Match(out_interface=interface), verdict=RETURN)
    yield Rule(
        name="passed-on-by-mark",
        match=Match(protocol=Protocol.TCP, out_interface=_LO, mark=config.tproxy_mark),
        verdict=RETURN,
    )
    yield from proxy_rules(config, jump("mangle-proxy"))
    yield Rule(
        name="answer-to-proxy",
        match=Match(protocol=Protocol.TCP, connection_mark=config.tproxy_mark),
        verdict=RESTORE_MARK,
    )


def _marked(config: CaptureConfig) -> Iterator[Rule]:
    for family in address_families(config):
        yield Rule(
            name="self-call-by-proxy",
            match=Match(
                family=family,
                protocol=Protocol.TCP,
                out_interface=_LO,
                not_destination=loopback(config, family),
            ),
            verdict=Verdict(kind=VerdictKind.SET_MARK, mark=SELF_CALL_MARK),
        )
