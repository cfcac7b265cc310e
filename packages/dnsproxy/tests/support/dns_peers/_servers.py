"""A server on free ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict, Unpack

from prometheus_client import CollectorRegistry

from mesh_dnsproxy import (
    CacheConfig,
    DnsConfig,
    DnsServer,
    ForwardConfig,
    ListenAddress,
    NameEntry,
    TcpConfig,
    Upstream,
    serving,
)
from mesh_lifecycle import Clock, Readiness
from mesh_testkit import find_free_port

PATIENT = ForwardConfig(timeout_s=60.0, total_timeout_s=120.0)
"""For upstreams that answer: on a slow machine they take their time, and are asked once."""
QUICK = ForwardConfig(timeout_s=0.2, total_timeout_s=1.0)
"""For upstreams that are silent, and waited for in vain."""


class Settings(TypedDict, total=False):
    """The fields of DnsConfig that tests set."""

    listen: tuple[ListenAddress, ...]
    domain: str
    namespace: str
    resolv_conf: Path | None
    suffix_upstreams: Mapping[str, tuple[Upstream, ...]]
    search: tuple[str, ...] | None
    forward_before_table: bool
    ttl_s: int
    max_udp_bytes: int
    forward: ForwardConfig
    cache: CacheConfig | None
    tcp: TcpConfig


class Options(TypedDict, total=False):
    """The optional arguments of `serving`."""

    readiness: Readiness
    registry: CollectorRegistry
    clock: Clock


@asynccontextmanager
async def running(
    config: DnsConfig, entries: Mapping[str, NameEntry] | None = None, **options: Unpack[Options]
) -> AsyncIterator[tuple[DnsServer, tuple[str, int]]]:
    """Run a server; with entries, once they are in use."""
    async with serving(config, **options) as server:
        if entries is not None:
            server.set_table(dict(entries))
            await server.wait_table_in_use()
        host, port = server.addresses[0]
        yield server, (host, port)


def answering(*upstreams: Upstream, **settings: Unpack[Settings]) -> DnsConfig:
    """Settings for a server on a free port of the loopback address, with these upstreams."""
    defaults = DnsConfig(
        listen=(ListenAddress("127.0.0.1", 0),),
        resolv_conf=None,
        upstreams=upstreams,
        forward=PATIENT,
    )
    return defaults._replace(**settings)


def refusing_port() -> int:
    """Return a port that no socket listens on, and that none is given by chance."""
    return find_free_port()
