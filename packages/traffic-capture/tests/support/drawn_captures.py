"""Configurations and packets, drawn so that packets meet what configurations name."""

from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network

from hypothesis import strategies as st

from mesh_traffic_capture import (
    ALL,
    CaptureConfig,
    ConnectionState,
    Direction,
    DnsCapture,
    Mode,
    Packet,
    Protocol,
)

PORTS = (22, 53, 80, 443, 8080, 15001, 15006, 15008, 15020, 15053)
IDS = (0, 5, 1000, 1337, 2000)
INTERFACES = ("lo", "eth0", "eth1", "vnet0", "net-1")
NETWORKS = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.0.0.0/9",
        "192.0.2.1/32",
        "127.0.0.0/8",
        "2001:db8::/32",
        "2001:db8:1::/48",
        "::/0",
        "::1/128",
    )
)
FOURS = tuple(
    ip_address(text)
    for text in (
        "10.0.0.1",
        "10.1.2.3",
        "192.0.2.1",
        "192.0.2.2",
        "127.0.0.1",
        "127.0.0.6",
        "127.0.0.53",
    )
)
SIXES = tuple(
    ip_address(text) for text in ("2001:db8::1", "2001:db8:1::1", "2001:db9::1", "::1", "::6")
)
_ports = st.frozensets(st.sampled_from(PORTS), max_size=4)
_ids = st.frozensets(st.sampled_from(IDS), max_size=2)
_networks = st.lists(st.sampled_from(NETWORKS), max_size=3).map(tuple)
_interfaces = st.lists(
    st.sampled_from(("eth1", "vnet0", "vnet+", "net-1")), max_size=2, unique=True
).map(tuple)
_servers = st.lists(st.sampled_from((*FOURS, *SIXES)), min_size=1, max_size=3).map(tuple)


def configs() -> st.SearchStrategy[CaptureConfig]:
    """Draw configurations without mistakes."""
    drawn = st.builds(
        CaptureConfig,
        mode=st.sampled_from(Mode),
        ipv6=st.booleans(),
        proxy_uids=_ids,
        proxy_gids=_ids,
        inbound_ports=st.just(ALL) | _ports,
        excluded_inbound_ports=_ports,
        outbound_ranges=st.just(ALL) | _networks,
        excluded_outbound_ranges=_networks,
        outbound_ports=_ports,
        excluded_outbound_ports=_ports,
        excluded_interfaces=_interfaces,
        virtual_interfaces=_interfaces,
        groups=st.just(ALL) | st.just(ALL) | _ids,
        excluded_groups=_ids,
        loopback=st.sampled_from((IPv4Network("127.0.0.1/32"), IPv4Network("127.0.0.0/8"))),
        dns=st.none() | st.builds(DnsCapture, servers=st.just(ALL) | _servers),
        tproxy_mark=st.sampled_from((1337, 7)),
        drop_invalid=st.booleans(),
    )
    return drawn.map(
        lambda config: (
            config
            if config.proxy_uids or config.proxy_gids
            else replace(config, proxy_uids=frozenset({1337}))
        )
    )


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    """Draw first packets of connections, and now and then an invalid one."""
    addresses = draw(st.sampled_from((FOURS, SIXES)))
    direction = draw(st.sampled_from(Direction))
    has_socket = direction is Direction.OUTBOUND and draw(st.integers(0, 4)) > 0
    return Packet(
        direction=direction,
        interface=draw(st.sampled_from(INTERFACES)),
        protocol=draw(st.sampled_from(Protocol)),
        destination=draw(st.sampled_from(addresses)),
        destination_port=draw(st.sampled_from((*PORTS, 9999))),
        source=draw(st.none() | st.sampled_from(addresses)),
        source_port=draw(st.sampled_from((40000, 53, 15053))),
        uid=draw(st.sampled_from(IDS)) if has_socket else None,
        gid=draw(st.sampled_from(IDS)) if has_socket else None,
        mark=draw(st.sampled_from((0, 0, 7, 1337, 1338))),
        state=draw(st.sampled_from((*[ConnectionState.NEW] * 4, ConnectionState.INVALID))),
    )
