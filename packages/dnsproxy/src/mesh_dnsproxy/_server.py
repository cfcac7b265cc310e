"""The composition of the server: its parts, in the order in which they start."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from mesh_dnsproxy._config import DnsConfig
from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy._errors import ConfigError, NameTableError
from mesh_dnsproxy._explanation import Explanation, explain
from mesh_dnsproxy._following import follow
from mesh_dnsproxy._slices import run_in_slices
from mesh_dnsproxy.answering._answerer import Answerer, Kept
from mesh_dnsproxy.forwarding._cache import CacheConfig, ReplyCache
from mesh_dnsproxy.forwarding._forwarder import Forwarder
from mesh_dnsproxy.forwarding._resolv_conf import ResolvConf, Upstream, parse_resolv_conf
from mesh_dnsproxy.forwarding._upstreams import Routes, without_ourselves
from mesh_dnsproxy.message._names import to_wire
from mesh_dnsproxy.serving._addresses import ListenAddress, bind, is_local
from mesh_dnsproxy.serving._tcp import TcpListener
from mesh_dnsproxy.serving._udp import UdpListener
from mesh_dnsproxy.table._compiled import CompiledTable, compile_table, retire_table
from mesh_dnsproxy.table._name_table import NameEntry, TableSource
from mesh_filewatch import fetch_bytes
from mesh_lifecycle import (
    Clock,
    Condition,
    Readiness,
    SystemClock,
    in_background,
    with_checked_fields,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from mesh_dnsproxy._metrics import Sizes

log = logging.getLogger(__name__)

NOT_READY = "DNS lookup table is not ready yet"
_MOST_RESOLV_CONF_BYTES = 256 * 1024
_DEFAULT_UPSTREAM = Upstream("127.0.0.1")
"""The server that a C library asks when resolv.conf names none (resolv.conf(5))."""


class DnsServer:
    """A running server; created by `serving`."""

    def __init__(
        self,
        config: DnsConfig,
        *,
        counts: Counts,
        answerer: Answerer,
        forwarder: Forwarder,
        cache: ReplyCache | None,
        condition: Condition,
        addresses: tuple[ListenAddress, ...],
    ) -> None:
        self._config = config
        self.counts = counts
        self._answerer = answerer
        self._forwarder = forwarder
        self._cache = cache
        self._condition = condition
        self.addresses = addresses
        """The addresses that it listens on, with the ports that were chosen."""
        self._scope = config.scope(())
        self._resolv_conf = ResolvConf()
        self._next: TableSource | None = None
        self._table_set = asyncio.Event()
        self._all_compiled = asyncio.Event()
        self._all_compiled.set()

    def set_table(self, table: TableSource) -> None:
        """Answer from this table as soon as it is compiled; until then from the one before.

        Returns at once. Of several tables that come while one is compiled, the last one counts. A
        table that can't be read is logged, and the one before stays in use.
        """
        self._next = table
        self._all_compiled.clear()
        self._table_set.set()

    async def wait_table_in_use(self) -> None:
        """Wait until the last table that was set is in use, or could not be read."""
        await self._all_compiled.wait()

    @property
    def ready(self) -> bool:
        """Whether there has been a table."""
        return self._answerer.table is not None

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """The upstream resolvers for names without a suffix of their own."""
        return self._forwarder.routes.default

    async def explain(self, name: str, record_type: str = "A") -> Explanation:
        """Return how a query is answered, by which rule, and the answer.

        A query that is forwarded is asked of the upstream resolvers, or taken from the cache, as
        for any client. Raises ValueError for a name or a type that can't be asked for.
        """
        return await explain(self._answerer, self._forwarder, name, record_type)

    async def table_json(self) -> bytes:
        """Return the table in use, in the form that `NameTable.from_json` reads.

        `alt_hosts` has all other names of a host, except those with a search domain.
        """
        table = self._answerer.table
        parts: list[str] = []
        if table is not None:
            await run_in_slices(_describe(table, parts))
        return ('{"table": {' + ", ".join(parts) + "}}").encode()

    async def compile_tables(self) -> None:
        """Compile each table that is set, until cancelled."""
        while True:
            await self._table_set.wait()
            self._table_set.clear()
            source, self._next = self._next, None
            if source is not None:
                await self._compile(source)
            if self._next is None:
                self._all_compiled.set()

    async def _compile(self, source: TableSource) -> None:
        scope = self._scope
        try:
            table = await run_in_slices(compile_table(source.items(), scope))
        except NameTableError as error:
            log.error("name table is not used", extra={"error": str(error)})
            return
        except Exception:
            log.exception("name table is not used")
            return
        if table.skipped_count:
            log.warning(
                "hosts of the name table are left out",
                extra={"hosts": table.skipped_count, "reasons": list(table.skipped)},
            )
        before = self._answerer.table
        # The search list may have changed meanwhile.
        kept = self._answerer.use_table(table.within(self._scope))
        if before is None:
            log.info("name table is in use", extra={"hosts": len(table.hosts)})
        self._condition.set()
        await run_in_slices(_retire(before, kept))

    async def apply_resolv_conf(self, content: bytes) -> None:
        """Use the servers of a new resolv.conf; if it names none, those of before stay in use."""
        found = parse_resolv_conf(content.decode("utf-8", "replace"))
        if found.problems:
            log.warning(
                "resolv.conf has lines that can't be read", extra={"problems": list(found.problems)}
            )
        if not found.nameservers and self._resolv_conf.nameservers:
            log.warning("resolv.conf names no server: the servers of before stay in use")
            return
        self._resolv_conf = found
        self.use_resolv_conf()

    def use_resolv_conf(self) -> None:
        """Set the upstream resolvers and the search domain."""
        config = self._config
        named = config.upstreams or self._resolv_conf.nameservers
        if not named and config.resolv_conf is not None:
            named = (_DEFAULT_UPSTREAM,)
        suffixes = {
            to_wire(suffix): self._others(servers)
            for suffix, servers in config.suffix_upstreams.items()
        }
        routes = Routes(self._others(named), suffixes)
        if routes != self._forwarder.routes or not routes.default:
            log.info("upstreams", extra={"upstreams": [str(each) for each in routes.default]})
        self._forwarder.set_routes(routes)
        scope = config.scope(self._resolv_conf.search)
        table = self._answerer.table
        if scope != self._scope:
            self._scope = scope
            if table is not None:
                self._answerer.use_table(table.within(scope))

    def _others(self, servers: tuple[Upstream, ...]) -> tuple[Upstream, ...]:
        """Leave out the addresses of this server."""
        others = without_ourselves(servers, self.addresses, is_local=is_local)
        if len(others) < len(servers):
            own = [str(each) for each in servers if each not in others]
            log.info("upstreams that are this server are not asked", extra={"upstreams": own})
        return others

    def sizes(self) -> "Sizes":
        """Return the sizes of the table and the cache at this moment."""
        from mesh_dnsproxy._metrics import Sizes

        table, cache = self._answerer.table, self._cache
        return Sizes(
            table_hosts=len(table.hosts) if table is not None else 0,
            cache_entries=len(cache) if cache is not None else 0,
            cache_bytes=cache.size_bytes if cache is not None else 0,
        )


@asynccontextmanager
async def serving(
    config: DnsConfig,
    *,
    readiness: Readiness | Condition | None = None,
    registry: "CollectorRegistry | None" = None,
    clock: Clock | None = None,
) -> AsyncIterator[DnsServer]:
    """Answer queries for as long as the block runs.

    readiness: gets the condition `dns`, which holds from the first table on; or the condition
    itself, registered by the caller. registry: gets the metrics; needs prometheus_client. clock: by
    which replies expire.

    Raises `ConfigError` and `AddressInUse`. A resolv.conf that can't be read is no error: the
    mesh's names are answered, and the file is read once it exists.
    """
    config = with_checked_fields(config, error=ConfigError)
    config.check()
    counts = Counts()
    clock = clock or SystemClock()
    condition = (
        readiness
        if isinstance(readiness, Condition)
        else (readiness or Readiness()).register("dns")
    )
    condition.unset(NOT_READY)
    answerer = Answerer(
        counts,
        ttl_s=config.ttl_s,
        max_udp_bytes=config.max_udp_bytes,
        forward_before_table=config.forward_before_table,
    )
    kept = config.cache
    cache = ReplyCache(kept) if kept is not None and kept.max_bytes > 0 else None
    stale_after_s = (kept or CacheConfig()).stale_after_s
    forwarder = Forwarder(config.forward, cache, counts, clock, stale_after_s=stale_after_s)
    async with AsyncExitStack() as stack:
        sockets = bind(config.listen, stack.enter_context(ExitStack()))
        server = DnsServer(
            config,
            counts=counts,
            answerer=answerer,
            forwarder=forwarder,
            cache=cache,
            condition=condition,
            addresses=tuple(ListenAddress(each.host, each.port) for each in sockets),
        )
        if registry is not None:
            stack.callback(_export(registry, server))
        first = await _read_resolv_conf(server, config)
        stack.push_async_callback(forwarder.wait_closed)
        tcp = TcpListener(config.tcp, answerer, forwarder, counts)
        udp = [UdpListener(each.udp, answerer, forwarder, counts) for each in sockets]
        for listener in udp:
            stack.callback(listener.close)
        await stack.enter_async_context(tcp.listening(tuple(each.tcp for each in sockets)))
        stack.enter_context(forwarder.closing())
        for listener in udp:
            stack.enter_context(listener.listening())
        if config.resolv_conf is not None:
            following = follow(
                config.resolv_conf,
                max_bytes=_MOST_RESOLV_CONF_BYTES,
                apply=server.apply_resolv_conf,
                first=first,
            )
            await stack.enter_async_context(in_background(following, name="resolv.conf"))
        compiling = in_background(server.compile_tables(), name="name tables")
        await stack.enter_async_context(compiling)
        log.info(
            "DNS server listens", extra={"addresses": [f"{h}:{p}" for h, p in server.addresses]}
        )
        yield server


async def _read_resolv_conf(server: DnsServer, config: DnsConfig) -> bytes | None:
    """Read the file before the first query comes; returns its content."""
    if config.resolv_conf is not None:
        try:
            content = await fetch_bytes(config.resolv_conf, max_bytes=_MOST_RESOLV_CONF_BYTES)
        except OSError as error:
            log.warning(
                "resolv.conf can't be read",
                extra={"file": str(config.resolv_conf), "error": str(error)},
            )
        else:
            await server.apply_resolv_conf(content)
            return content
    server.use_resolv_conf()
    return None


def _export(registry: "CollectorRegistry", server: DnsServer) -> Callable[[], None]:
    from mesh_dnsproxy._metrics import registered

    return registered(registry, server.counts, server.sizes)


def _describe(table: CompiledTable, parts: list[str]) -> Generator[None, None, None]:
    for host, entry in table.entries():
        parts.append(f"{json.dumps(host)}: {json.dumps(_shown(table, host, entry))}")
        yield


def _shown(table: CompiledTable, host: str, entry: NameEntry) -> dict[str, object]:
    shown: dict[str, object] = {"ips": entry.addresses}
    if entry.registry:
        shown["registry"] = entry.registry
    if entry.short_name:
        shown["shortname"] = entry.short_name
    if entry.namespace:
        shown["namespace"] = entry.namespace
    alternates = table.alternates(host, entry)
    if alternates:
        shown["alt_hosts"] = alternates
    if entry.ports:
        shown["ports"] = [port._asdict() for port in entry.ports]
    return shown


def _retire(table: CompiledTable | None, kept: Kept) -> Generator[None, None, None]:
    while kept:
        kept.popitem()
        yield
    if table is not None:
        yield from retire_table(table)
