"""The limit of connections on the real Envoy: who is turned away, and who never is."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from envoy_supervisor import Address, BootstrapConfig, EnvoyConfig, UnixAddress, running
from envoy_supervisor import render_bootstrap as render

HOST = "127.0.0.1"


@pytest.fixture
async def agent_port() -> AsyncIterator[int]:
    """An agent's status server, as far as readiness goes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The status of one request; empty if the connection is closed instead."""
    try:
        writer.write(b"GET /healthz/ready HTTP/1.1\r\nhost: a\r\n\r\n")
        return (await reader.readuntil(b"\r\n\r\n")).split()[1]
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def test_connections_beyond_the_limit_are_turned_away_but_not_the_kubelet(
    agent_port: int, envoy_binary: Path, socket_dir: Path, free_port: Callable[[], int]
) -> None:
    traffic, readiness = free_port(), free_port()
    rendered: Any = render(
        BootstrapConfig(
            node_id="n",
            node_cluster="c",
            admin=UnixAddress(path=socket_dir / "admin"),
            xds_socket=socket_dir / "XDS",
            sds_socket=socket_dir / "SDS",
            status_target=Address(host=HOST, port=agent_port),
            readiness_listener=Address(host=HOST, port=readiness),
            max_connections=1,
            runtime={"overload.global_downstream_max_connections": "1000"},
        )
    )
    # Nobody is there to answer, and Envoy would wait for that; a listener for traffic instead.
    del rendered["dynamic_resources"]
    listeners = rendered["static_resources"]["listeners"]
    listener = copy.deepcopy(listeners[0])
    listener["address"]["socket_address"]["port_value"] = traffic
    del listener["ignore_global_conn_limit"], listener["bypass_overload_manager"]
    listeners.append(listener)
    bootstrap = socket_dir / "bootstrap.json"
    bootstrap.write_text(json.dumps(rendered))
    config = EnvoyConfig(
        binary=envoy_binary, bootstrap=bootstrap, directory=socket_dir, concurrency=1
    )
    async with running(config) as envoy:
        await envoy.wait_ready(20)
        first = await asyncio.open_connection(HOST, traffic)
        assert await status(*first) == b"200"
        second = await asyncio.open_connection(HOST, traffic)
        assert await status(*second) == b""
        kubelet = await asyncio.open_connection(HOST, readiness)
        assert await status(*kubelet) == b"200"
        assert await status(*first) == b"200"
        for _, writer in (first, second, kubelet):
            writer.close()
