"""The conntrack zones of DNS, and whose queries are redirected.

An application and the agent may ask the same server from the same port. In one zone the agent's
query would find the NAT of the application's and be sent back to the agent (istio#33469): zone 1
is for queries that go to servers, zone 2 for those that go to the agent.
"""

from __future__ import annotations

from mesh_traffic_capture.config import (
    ALL,
    DNS_PORT,
    CaptureConfig,
    DnsCapture,
    IPNetwork,
)
from mesh_traffic_capture.rules._networks import address_families, by_family
from mesh_traffic_capture.rules._rule import (
    RETURN,
    Chain,
    Family,
    Hook,
    Match,
    Protocol,
    Rule,
    Table,
    Verdict,
    VerdictKind,
    goto,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TO_SERVERS = Verdict(kind=VerdictKind.SET_ZONE, zone=1)
_TO_AGENT = Verdict(kind=VerdictKind.SET_ZONE, zone=2)


def servers_by_family(
    config: CaptureConfig, dns: DnsCapture
) -> Iterator[tuple[Family, tuple[IPNetwork, ...]]]:
    """Yield the servers of each address family whose queries are redirected; none: any."""
    if dns.servers is ALL:
        for family in address_families(config):
            yield family, ()
    else:
        yield from by_family(config, dns.servers)


def dns_chains(config: CaptureConfig) -> Iterator[Chain]:
    """Yield the chains that tell queries to servers from those to the agent."""
    if config.dns is None:
        return
    servers = tuple(servers_by_family(config, config.dns))
    yield Chain(
        name="raw-output",
        table=Table.RAW,
        hook=Hook.OUTPUT,
        rules=tuple(_queries(config, servers)),
    )
    yield Chain(name="raw-proxy", table=Table.RAW, rules=tuple(_proxys_own(config.dns, servers)))
    yield Chain(
        name="raw-prerouting",
        table=Table.RAW,
        hook=Hook.PREROUTING,
        rules=tuple(
            Rule(
                name="dns-from-server",
                match=Match(
                    family=family,
                    protocol=Protocol.UDP,
                    source=networks,
                    source_port=DNS_PORT,
                ),
                verdict=_TO_SERVERS,
            )
            for family, networks in servers
        ),
    )


_Servers = tuple[tuple[Family, tuple[IPNetwork, ...]], ...]


def _queries(config: CaptureConfig, servers: _Servers) -> Iterator[Rule]:
    if config.proxy_uids:
        yield Rule(
            name="proxy-user", match=Match(uids=config.proxy_uids), verdict=goto("raw-proxy")
        )
    if config.proxy_gids:
        yield Rule(
            name="proxy-group", match=Match(gids=config.proxy_gids), verdict=goto("raw-proxy")
        )
    # What nat does not redirect goes to a server: its answer comes back in zone 1.
    for interface in config.excluded_interfaces:
        yield from _zone("dns-excluded-interface", servers, _TO_SERVERS, out_interface=interface)
    if config.groups is ALL:
        if config.excluded_groups:
            yield from _zone(
                "dns-excluded-group", servers, _TO_SERVERS, gids=config.excluded_groups
            )
        yield from _zone("dns", servers, _TO_AGENT)
    else:
        if config.groups:
            yield from _zone("dns-included-group", servers, _TO_AGENT, gids=config.groups)
        yield from _zone("dns-other-group", servers, _TO_SERVERS)


def _zone(
    name: str,
    servers: _Servers,
    verdict: Verdict,
    *,
    out_interface: str = "",
    gids: frozenset[int] = frozenset(),
) -> Iterator[Rule]:
    for family, networks in servers:
        yield Rule(
            name=name,
            match=Match(
                family=family,
                protocol=Protocol.UDP,
                out_interface=out_interface,
                destination=networks,
                ports=frozenset({DNS_PORT}),
                gids=gids,
            ),
            verdict=verdict,
        )


def _proxys_own(dns: DnsCapture, servers: _Servers) -> Iterator[Rule]:
    yield from _zone("dns-by-agent", servers, _TO_SERVERS)
    for family, _ in servers:
        yield Rule(
            name="dns-answer-of-agent",
            match=Match(family=family, protocol=Protocol.UDP, source_port=dns.port),
            verdict=_TO_AGENT,
        )
    yield Rule(name="sent-by-proxy", verdict=RETURN)
