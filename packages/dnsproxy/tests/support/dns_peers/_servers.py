"""A server on free ports."""

from __future__ import annotations

import socket
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

QUICK = ForwardConfig(timeout_s=0.2, total_timeout_s=1.0)


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
        "forward": QUICK,
    }
    return DnsConfig(**{**defaults, **settings})  # type: ignore[arg-type]


def refusing_port() -> int:
    """A UDP port where nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
