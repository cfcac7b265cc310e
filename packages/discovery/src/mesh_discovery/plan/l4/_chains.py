"""Filter chains of connections, as data: which connections, and the clusters they go to."""

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
    looked_up_port: int | None = None
    """Of the host that a connection names by SNI, where that is looked up to find where it goes."""

    @property
    def is_plain(self) -> bool:
        """Whether it is one cluster, and no more is said of it."""
        return (
            len(self.clusters) == 1
            and self.idle_timeout is None
            and self.max_duration is None
            and not self.by_source_address
            and self.tunnel is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpChain:
    """Connections by SNI and by the address they were going to; empty: all."""

    target: TcpTarget
    server_names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    origin: Origin | None = None

    @property
    def is_plain(self) -> bool:
        """Whether no rule has a say in where the connections go, and how."""
        return self.origin is None and self.target.is_plain

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
