"""The limit of connections on the real Envoy: who is turned away, and who never is."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any

from envoy_supervisor import Address, BootstrapConfig, render_bootstrap
from supervised import FreePort, WithoutControlPlane, serving

HOST = "127.0.0.1"


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The status of one request; empty if the connection is closed instead."""
    try:
        writer.write(b"GET /healthz/ready HTTP/1.1\r\nhost: a\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"/healthz/ready")
        return head.split()[1]
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def test_connections_beyond_the_limit_are_turned_away_but_not_the_kubelet(
    status_port: int,
    bootstrap_config: BootstrapConfig,
    without_control_plane: WithoutControlPlane,
    free_port: FreePort,
) -> None:
    traffic, readiness = free_port(), free_port()
    rendered: Any = render_bootstrap(
        replace(
            bootstrap_config,
            status_target=Address(host=HOST, port=status_port),
            readiness_listener=Address(host=HOST, port=readiness),
            max_connections=1,
            runtime={"overload.global_downstream_max_connections": "1000"},
        )
    )
    # A listener for traffic, as a control plane would give it.
    listeners = rendered["static_resources"]["listeners"]
    listener = copy.deepcopy(listeners[0])
    listener["address"]["socket_address"]["port_value"] = traffic
    del listener["ignore_global_conn_limit"], listener["bypass_overload_manager"]
    listeners.append(listener)
    async with serving(without_control_plane(rendered)):
        first = await asyncio.open_connection(HOST, traffic)
        assert await status(*first) == b"200"
        second = await asyncio.open_connection(HOST, traffic)
        assert await status(*second) == b""
        kubelet = await asyncio.open_connection(HOST, readiness)
        assert await status(*kubelet) == b"200"
        assert await status(*first) == b"200"
        for _, writer in (first, second, kubelet):
            writer.close()
