"""Filter chains of connections, as data: which connections, and the clusters they go to."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import NamedTuple

from mesh_configfile import Duration


class WeightedCluster(NamedTuple):
    """A cluster, and its share of the connections."""

    name: str
    weight: int = 1


class Tunnel(NamedTuple):
    """The target that a connection is tunnelled to, by the cluster's HTTP proxy."""

    host: str
    port: int
    post: bool = False
    """By POST; else by CONNECT."""


class Origin(NamedTuple):
    """The VirtualService that a chain stems from."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpTarget:
    """The clusters that connections go to, and how."""

    stat_prefix: str
    clusters: tuple[WeightedCluster, ...]
    """None has weight 0, unless it is the only one."""
    idle_timeout: Duration | None = None
    max_duration: Duration | None = None
    by_source_address: bool = False
    """Whether connections of one address go to one endpoint."""
    tunnel: Tunnel | None = None
    is_mongo: bool = False
    """Whether statistics of Mongo's operations are emitted."""
    looked_up_port: int | None = None
    """Of the host that a connection names by SNI, where that is looked up to find where it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpChain:
    """Connections by SNI and by the address they were going to; empty: all."""

    target: TcpTarget
    server_names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    origin: Origin | None = None

    @property
    def needs_sni(self) -> bool:
        """Whether the name that a client asks for by SNI has to be known."""
        return bool(self.server_names) or self.target.looked_up_port is not None

    @property
    def takes_all(self) -> bool:
        """Whether no other chain could take what this one does not."""
        return not self.server_names and not self.prefixes


def to_cluster(name: str) -> TcpTarget:
    """Return the target that is one cluster, and no more said of it."""
    return TcpTarget(stat_prefix=name, clusters=(WeightedCluster(name),))


def server_names(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return SNI names as Envoy matches them: in lower case, and none where all are meant."""
    return () if "*" in hosts else tuple(dict.fromkeys(each.lower() for each in hosts))


def prefixes(networks: tuple[str, ...]) -> tuple[str, ...]:
    """Return ranges as Envoy matches them: without host bits, and none where all are meant."""
    found = tuple(dict.fromkeys(str(ip_network(each, strict=False)) for each in networks))
    return () if any(each.endswith("/0") for each in found) else found


def connections(chain: TcpChain) -> Iterator[tuple[str, str]]:
    """Yield the pairs of SNI and range that a chain takes; empty: any."""
    for name in chain.server_names or ("",):
        for prefix in chain.prefixes or ("",):
            yield name, prefix


def only(chain: TcpChain, pairs: Iterable[tuple[str, str]]) -> Iterator[TcpChain]:
    """Yield chains that take these pairs of a chain, and no others."""
    known = list(pairs)
    for name in dict.fromkeys(name for name, _ in known):
        yield TcpChain(
            target=chain.target,
            server_names=(name,) if name else (),
            prefixes=tuple(prefix for own, prefix in known if own == name and prefix),
            origin=chain.origin,
        )


def distinct(chains: Iterable[TcpChain]) -> Iterator[TcpChain]:
    """Yield chains without the connections that a chain before them takes.

    Envoy refuses a listener two of whose chains take the same.
    """
    taken: set[tuple[str, str]] = set()
    for chain in chains:
        wanted = list(connections(chain))
        free = [each for each in wanted if each not in taken]
        taken.update(free)
        if len(free) == len(wanted):
            yield chain
        else:
            yield from only(chain, free)
