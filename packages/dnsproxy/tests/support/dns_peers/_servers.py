"""A server on free ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mesh_dnsproxy import (
    DnsConfig,
    DnsServer,
    ForwardConfig,
    ListenAddress,
    NameEntry,
    serving,
)
from mesh_testkit import find_free_port

PATIENT = ForwardConfig(timeout_s=60.0, total_timeout_s=120.0)
"""For upstreams that answer: on a slow machine they take their time, and are asked once."""
QUICK = ForwardConfig(timeout_s=0.2, total_timeout_s=1.0)
"""For upstreams that are silent, and waited for in vain."""


@asynccontextmanager
async def running(
    config: DnsConfig, entries: Mapping[str, NameEntry] | None = None, **options: object
) -> AsyncIterator[tuple[DnsServer, tuple[str, int]]]:
    """Run a server; with entries, once they are answered from."""
    async with serving(config, **options) as server:  # type: ignore[arg-type]
        if entries is not None:
            server.set_table(dict(entries))
            await server.wait_table_in_use()
        host, port = server.addresses[0]
        yield server, (host, port)


def answering(*upstreams: object, **settings: object) -> DnsConfig:
    """Settings for a server on a free port of the loopback address, with these upstreams."""
    defaults: dict[str, object] = {
        "listen": (ListenAddress("127.0.0.1", 0),),
        "resolv_conf": None,
        "upstreams": upstreams,
        "forward": PATIENT,
    }
    return DnsConfig(**{**defaults, **settings})  # type: ignore[arg-type]


def refusing_port() -> int:
    """Return a port that no socket listens on, and that none is given by chance."""
    return find_free_port()
