"""Requests lost while Envoy is replaced, killed and stopped, under constant load.

Short requests without pause, each over a new connection, and long ones that last `--long-s`. Run:

    python packages/envoy-supervisor/bench/bench_restart.py [--old-envoy PATH] [--long-s 10]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from envoy_supervisor import EnvoyConfig, find_envoy, running
from mesh_testkit import find_free_port

WORKERS = 4
LONG_WORKERS = 8


def bootstrap(listen: int, application: int, admin: Path, note: str) -> dict[str, Any]:
    types = "type.googleapis.com/envoy.extensions.filters"
    manager = {
        "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "route": {"cluster": "application", "timeout": "60s"},
                        }
                    ],
                }
            ]
        },
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{types}.http.router.v3.Router"}}
        ],
    }
    return {
        "node": {"id": note, "cluster": "bench"},
        "admin": {"address": {"pipe": {"path": str(admin)}}},
        "static_resources": {
            "listeners": [
                {
                    "name": "in",
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": listen}},
                    "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
                }
            ],
            "clusters": [
                {
                    "name": "application",
                    "load_assignment": {
                        "cluster_name": "application",
                        "endpoints": [
                            {
                                "lb_endpoints": [
                                    {
                                        "endpoint": {
                                            "address": {
                                                "socket_address": {
                                                    "address": "127.0.0.1",
                                                    "port_value": application,
                                                }
                                            }
                                        }
                                    }
                                ]
                            }
                        ],
                    },
                }
            ],
        },
    }


class Load:
    """Counts how requests end."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.short: Counter[str] = Counter()
        self.long: Counter[str] = Counter()
        self.in_flight = 0
        self.stopping = False

    async def ask(self, path: str) -> str:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return "refused"
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            answer = await reader.readuntil(b"done")
        except (OSError, asyncio.IncompleteReadError):
            return "cut"
        finally:
            writer.close()
        return "ok" if answer.startswith(b"HTTP/1.1 200") else answer[:12].decode()

    async def short_worker(self) -> None:
        while not self.stopping:
            result = await self.ask("/short")
            self.short[result] += 1
            if result == "refused":
                await asyncio.sleep(0.001)

    async def long_worker(self) -> None:
        while not self.stopping:
            self.in_flight += 1
            self.long[await self.ask("/long")] += 1
            self.in_flight -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self.short_worker())
            for number in range(LONG_WORKERS):
                group.create_task(self.long_worker())
                await asyncio.sleep(0.1 if number else 0)
            try:
                yield
            finally:
                self.stopping = True

    def report(self, what: str, took_s: float, note: str = "") -> None:
        print(
            f"{what:24} {took_s:5.2f} s  short {dict(self.short)}  long {dict(self.long)} {note}",
            flush=True,
        )


async def application(long_s: float) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET /long"):
                    await asyncio.sleep(long_s)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        server = await application(options.long_s)
        listen, target = find_free_port(), server.sockets[0].getsockname()[1]
        file = directory / "bootstrap.json"

        def write(note: str) -> None:
            file.write_text(json.dumps(bootstrap(listen, target, directory / "admin", note)))

        write("one")
        config = EnvoyConfig(
            binary=options.old_envoy or options.envoy,
            bootstrap=file,
            directory=directory / "run",
            parent_shutdown_time=timedelta(seconds=options.long_s + 2),
            termination_drain=timedelta(seconds=options.long_s * 2),
            concurrency=1,
        )
        async with server:
            async with running(config) as envoy:
                await envoy.wait_ready(10)
                for what in ("new configuration", "new binary"):
                    if what == "new binary" and options.old_envoy is None:
                        continue
                    load = Load(listen)
                    async with load.running():
                        await asyncio.sleep(1)
                        write(what)
                        begun = time.monotonic()
                        await envoy.restart(
                            replace(config, binary=options.envoy) if "binary" in what else None
                        )
                        took_s = time.monotonic() - begun
                        await asyncio.sleep(options.long_s + 3)
                    load.report(what, took_s)
                load = Load(listen)
                took, in_flight = [], []
                async with load.running():
                    for kill in range(options.kills):
                        await asyncio.sleep(1.5)
                        in_flight.append(load.in_flight)
                        begun = time.monotonic()
                        os.kill(envoy.pid, signal.SIGKILL)
                        while envoy.status.crashes == kill:  # noqa: ASYNC110
                            await asyncio.sleep(0.001)
                        await envoy.wait_ready(10)
                        took.append(round(time.monotonic() - begun, 3))
                    await asyncio.sleep(1)
                note = f"(long in flight: {in_flight}, sockets handed over: "
                note += f"{envoy.status.handed_over}, seconds: {took})"
                load.report(f"kill -9, {options.kills} times", max(took), note)
                load = Load(listen)
                background = asyncio.create_task(hold(load))
                await asyncio.sleep(1)
                load.stopping = True
                begun = time.monotonic()
            took_s = time.monotonic() - begun
            await background
            load.report("stop (no new requests)", took_s)
            async with running(config) as envoy:
                await envoy.wait_ready(10)
                begun = time.monotonic()
            print(f"stop when idle: {time.monotonic() - begun:.3f} s")


async def hold(load: Load) -> None:
    async with load.running():
        while not load.stopping:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envoy", type=Path, default=find_envoy())
    parser.add_argument("--old-envoy", type=Path)
    parser.add_argument("--long-s", type=float, default=10.0)
    parser.add_argument("--kills", type=int, default=3)
    asyncio.run(main(parser.parse_args()))
