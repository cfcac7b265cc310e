"""The settings of the server: each field with its unit, its default and its consequence."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mesh_dnsproxy._errors import ConfigError
from mesh_dnsproxy.forwarding._cache import CacheConfig
from mesh_dnsproxy.forwarding._forwarder import ForwardConfig
from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.message._names import BadName, to_wire
from mesh_dnsproxy.serving._addresses import ListenAddress
from mesh_dnsproxy.serving._tcp import TcpConfig
from mesh_dnsproxy.table._compiled import Scope

ISTIO_PORT = 15053
_LARGEST_TTL_S = (1 << 31) - 1
_LEAST_UDP_BYTES, _MOST_UDP_BYTES = 512, 65507


class DnsConfig(NamedTuple):
    """The settings of a server.

    listen: UDP and TCP on each; port 0 is any. domain: the mesh's, without a namespace; hosts of
    the Kubernetes registry below it have short names. namespace: the workload's own; its hosts
    can be asked for by their first label alone; empty: none can. resolv_conf: names the upstream
    resolvers and the search list, and is read again when it changes; None: neither. upstreams:
    asked in place of the file's, if there are any. suffix_upstreams: asked for names below a
    suffix; the longest suffix counts. search: in place of the file's; None: the file's.
    forward_before_table: until there is a table, ask the upstreams; otherwise the answer is
    SERVFAIL. ttl_s: of answers from the table. max_udp_bytes: the largest answer over UDP, to
    clients that accept one so large. cache: None keeps no replies.
    """

    listen: tuple[ListenAddress, ...] = (ListenAddress("localhost", ISTIO_PORT),)
    domain: str = "svc.cluster.local"
    namespace: str = ""
    resolv_conf: Path | None = Path("/etc/resolv.conf")
    upstreams: tuple[Upstream, ...] = ()
    suffix_upstreams: Mapping[str, tuple[Upstream, ...]] = {}
    search: tuple[str, ...] | None = None
    forward_before_table: bool = False
    ttl_s: int = 30
    max_udp_bytes: int = 4096
    forward: ForwardConfig = ForwardConfig()
    cache: CacheConfig | None = CacheConfig()
    tcp: TcpConfig = TcpConfig()

    def check(self) -> None:
        """Raise `ConfigError` with every mistake."""
        mistakes = list(_mistakes(self))
        if mistakes:
            raise ConfigError("; ".join(mistakes))

    def scope(self, search: tuple[str, ...]) -> Scope:
        """Return the domains that short names are completed with. search: that of resolv.conf."""
        chosen = search if self.search is None else self.search
        first = chosen[0] if chosen else ""
        try:
            return Scope.from_texts(domain=self.domain, namespace=self.namespace, search=first)
        except BadName:  # in resolv.conf: the settings were checked
            return Scope.from_texts(domain=self.domain, namespace=self.namespace, search="")


def _mistakes(config: DnsConfig) -> list[str]:
    found = []
    if not config.listen:
        found.append("listen is empty; it should have an address such as 127.0.0.1:15053")
    for what, name in (
        ("domain", config.domain),
        ("namespace", config.namespace),
        *(("search", each) for each in config.search or ()),
        *(("suffix_upstreams", each) for each in config.suffix_upstreams),
    ):
        try:
            to_wire(name)
        except BadName as error:
            found.append(f"{what}: {error}")
    if not 0 <= config.ttl_s <= _LARGEST_TTL_S:
        found.append(f"ttl_s is {config.ttl_s}; it should be 0 or more seconds")
    if not _LEAST_UDP_BYTES <= config.max_udp_bytes <= _MOST_UDP_BYTES:
        found.append(f"max_udp_bytes is {config.max_udp_bytes}; it should be 512 to 65507")
    forward = config.forward
    found += [
        f"forward.{name} is {value}; it should be above 0"
        for name, value in (
            ("timeout_s", forward.timeout_s),
            ("total_timeout_s", forward.total_timeout_s),
            ("rounds", forward.rounds),
            ("max_questions", forward.max_questions),
            ("max_waiting", forward.max_waiting),
            ("max_sockets", forward.max_sockets),
            ("max_tcp_connections", forward.max_tcp_connections),
        )
        if value <= 0
    ]
    if not forward.coalesce and config.cache is not None:
        found.append(
            "forward.coalesce is False, and there is a cache; without one (cache=None) it may be,"
            " as many open questions for one name make it easy to forge what is kept"
        )
    found += [
        f"tcp.{name} is {value}; it should be above 0"
        for name, value in config.tcp._asdict().items()
        if value <= 0
    ]
    return found
