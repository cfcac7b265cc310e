"""The rules for what processes of this machine send: nat-output and the chains it leads to."""

from __future__ import annotations

from mesh_traffic_capture.config import ALL, DNS_PORT, CaptureConfig, Mode
from mesh_traffic_capture.rules._dns import servers_by_family
from mesh_traffic_capture.rules._networks import address_families, by_family, loopback, passed_on
from mesh_traffic_capture.rules._rule import (
    RETURN,
    Chain,
    Hook,
    Match,
    Protocol,
    Rule,
    Table,
    Verdict,
    goto,
    redirect,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPBACK_INTERFACE = "lo"


def outbound_chains(config: CaptureConfig) -> Iterator[Chain]:
    """Yield the chains of nat for outbound traffic."""
    first = (
        *_never_redirected(config),
        *proxy_rules(config, goto("nat-proxy")),
        *_self_calls(config),
    )
    rest = tuple(_redirected(config))
    if config.groups is ALL:
        excluded = _groups("excluded-group", config.excluded_groups, RETURN)
        yield Chain(
            name="nat-output", table=Table.NAT, hook=Hook.OUTPUT, rules=(*first, *excluded, *rest)
        )
    else:
        chosen = _groups("included-group", config.groups, goto("nat-included"))
        other = Rule(name="other-group", verdict=RETURN)
        yield Chain(
            name="nat-output", table=Table.NAT, hook=Hook.OUTPUT, rules=(*first, *chosen, other)
        )
        if config.groups:
            yield Chain(name="nat-included", table=Table.NAT, rules=rest)
    yield Chain(name="nat-proxy", table=Table.NAT, rules=tuple(_proxys_own(config)))


def proxy_rules(config: CaptureConfig, verdict: Verdict) -> Iterator[Rule]:
    """Yield the rules for what the proxy sends.

    Asked positively, for a packet without a socket (an answer of the kernel) has no owner: it
    matches iptables' `! --uid-owner`, and does not match nft's `skuid !=`.
    """
    if config.proxy_uids:
        yield Rule(name="proxy-user", match=Match(uids=config.proxy_uids), verdict=verdict)
    if config.proxy_gids:
        yield Rule(name="proxy-group", match=Match(gids=config.proxy_gids), verdict=verdict)


def _groups(name: str, gids: frozenset[int], verdict: Verdict) -> tuple[Rule, ...]:
    return (Rule(name=name, match=Match(gids=gids), verdict=verdict),) if gids else ()


def _never_redirected(config: CaptureConfig) -> Iterator[Rule]:
    if config.mode is Mode.TPROXY:
        # Envoy's connection to the application, with the client's address: it leaves by lo, and
        # is not to 127.0.0.1, nor from 127.0.0.6, so it would be taken for a self-call below.
        yield Rule(
            name="passed-on-by-mark",
            match=Match(
                protocol=Protocol.TCP, out_interface=_LOOPBACK_INTERFACE, mark=config.tproxy_mark
            ),
            verdict=RETURN,
        )
    for interface in config.excluded_interfaces:
        yield Rule(name="excluded-interface", match=Match(out_interface=interface), verdict=RETURN)
    if config.excluded_outbound_ports:
        for protocol in Protocol:
            yield Rule(
                name="excluded-outbound-port",
                match=Match(protocol=protocol, ports=config.excluded_outbound_ports),
                verdict=RETURN,
            )
    for family in address_families(config):
        yield Rule(
            name="passed-on",
            match=Match(
                family=family, out_interface=_LOOPBACK_INTERFACE, source=(passed_on(family),)
            ),
            verdict=RETURN,
        )


def _proxys_own(config: CaptureConfig) -> Iterator[Rule]:
    ports = {config.tunnel_port} if config.dns is None else {config.tunnel_port, DNS_PORT}
    for family in address_families(config):
        # The application called its own service, and Envoy chose this very workload.
        yield Rule(
            name="self-call-by-proxy",
            match=Match(
                family=family,
                protocol=Protocol.TCP,
                out_interface=_LOOPBACK_INTERFACE,
                not_destination=loopback(config, family),
                not_ports=frozenset(ports),
            ),
            verdict=redirect(config.inbound_port),
        )
    yield Rule(name="sent-by-proxy", verdict=RETURN)


def _self_calls(config: CaptureConfig) -> Iterator[Rule]:
    """Yield the rule for what the application sends to an address of its own machine."""
    if config.outbound_ranges_have_loopback():
        return
    match = Match(out_interface=_LOOPBACK_INTERFACE)
    if config.dns is not None:
        # A resolver may be there: its queries go on to the rules about DNS.
        match = Match(
            protocol=Protocol.TCP,
            out_interface=_LOOPBACK_INTERFACE,
            not_ports=frozenset({DNS_PORT}),
        )
    yield Rule(name="self-call", match=match, verdict=RETURN)


def _redirected(config: CaptureConfig) -> Iterator[Rule]:
    if config.dns is not None:
        for family, servers in servers_by_family(config, config.dns):
            for protocol in (Protocol.TCP, Protocol.UDP):
                yield Rule(
                    name="dns",
                    match=Match(
                        family=family,
                        protocol=protocol,
                        destination=servers,
                        ports=frozenset({DNS_PORT}),
                    ),
                    verdict=redirect(config.dns.port),
                )
    for family in address_families(config):
        yield Rule(
            name="to-loopback",
            match=Match(family=family, destination=(loopback(config, family),)),
            verdict=RETURN,
        )
    for family, ranges in by_family(config, config.excluded_outbound_ranges):
        yield Rule(
            name="excluded-range",
            match=Match(family=family, destination=ranges),
            verdict=RETURN,
        )
    if config.outbound_ports:
        yield Rule(
            name="outbound-port",
            match=Match(protocol=Protocol.TCP, ports=config.outbound_ports),
            verdict=redirect(config.outbound_port),
        )
    yield from outbound_rules(config, name="outbound")


def outbound_rules(config: CaptureConfig, *, name: str, in_interface: str = "") -> Iterator[Rule]:
    """Yield the rules that redirect TCP to all destinations, or to the ranges that are named."""
    if config.outbound_ranges is ALL:
        yield Rule(
            name=name,
            match=Match(protocol=Protocol.TCP, in_interface=in_interface),
            verdict=redirect(config.outbound_port),
        )
        return
    for family, ranges in by_family(config, config.outbound_ranges):
        yield Rule(
            name=f"{name}-range",
            match=Match(
                family=family,
                protocol=Protocol.TCP,
                in_interface=in_interface,
                destination=ranges,
            ),
            verdict=redirect(config.outbound_port),
        )
