"""What a stop does to long requests, and what restarts leave behind, on a real Envoy.

Each row of the first table stops Envoy, as SIGTERM to its supervisor does, while short and long
requests run; clients begin no new ones then. Long ones finish if they end before the deadline, or
are cut at it. The second table counts what there is before and after `--restarts` hot restarts;
/dev/shm is the whole machine's. Run:

    python packages/envoy-supervisor/bench/bench_drain.py [--long-s 2] [--restarts 20]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from bench_restart import Load, application, bootstrap, hold

from envoy_supervisor import EnvoyConfig, find_envoy, running
from mesh_testkit import find_free_port

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Envoy puts it


class Bench:
    """A directory, an application behind it, and the Envoy between."""

    def __init__(self, directory: Path, target: int, options: argparse.Namespace) -> None:
        self.directory = directory
        self.target = target
        self.options = options
        self.listen = find_free_port()

    def config(self, note: str, **drain: float) -> EnvoyConfig:
        file = self.directory / "bootstrap.json"
        content = bootstrap(self.listen, self.target, self.directory / "admin", note)
        file.write_text(json.dumps(content))
        return EnvoyConfig(
            binary=self.options.envoy,
            bootstrap=file,
            directory=self.directory / "run",
            termination_drain=timedelta(seconds=drain.get("deadline_s", 5.0)),
            parent_shutdown_time=timedelta(seconds=1),
            log_level="error",
            concurrency=1,
        )

    async def stop(self, what: str, *, deadline_s: float, loaded: bool) -> None:
        load = Load(self.listen)
        async with asyncio.TaskGroup() as group:
            async with running(self.config(what, deadline_s=deadline_s)) as envoy:
                await envoy.wait_ready(10)
                if loaded:
                    group.create_task(hold(load))
                    await asyncio.sleep(1.5)
                in_flight, begun = load.in_flight, time.monotonic()
                load.stopping = True
            took_s = time.monotonic() - begun
        print(
            f"{what:34} deadline {deadline_s:4.1f} s  took {took_s:6.3f} s  in flight {in_flight}"
            f"  long {dict(load.long)}  short {dict(load.short)}",
            flush=True,
        )

    async def restarts(self, count: int) -> None:
        await asyncio.sleep(
            self.options.long_s + 0.5
        )  # until the application has seen its last clients go
        before = self.left()
        async with running(self.config("0")) as envoy:
            await envoy.wait_ready(10)
            during = self.left()
            for number in range(count):
                await envoy.restart(self.config(str(number + 1)))
            restarts = envoy.status.restarts
        after = self.left()
        print(f"\nafter {restarts} restarts  {'before':>8} {'running':>8} {'after':>8}")
        for name, number in before.items():
            print(f"{name:19} {number:8} {during[name]:8} {after[name]:8}")

    def left(self) -> dict[str, int]:
        children = [file.read_text().split() for file in Path("/proc/self/task").glob("*/children")]
        sockets = Path("/proc/net/unix").read_text()
        files = [path for path in self.directory.rglob("*") if path.name != "bootstrap.json"]
        return {
            "processes": sum(map(len, children)),
            "file descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - only a count
            "shared memory": len(list(SHARED_MEMORY.glob("envoy_shared_memory_*"))),
            "files": sum(path.is_file() for path in files),
            "socket files": sum(path.is_socket() for path in files),
            "sockets": sockets.count(str(self.directory)),
        }


async def main(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with await application(options.long_s) as server:
            bench = Bench(Path(name), server.sockets[0].getsockname()[1], options)
            long_s = options.long_s
            await bench.stop("long requests finish", deadline_s=long_s * 3, loaded=True)
            await bench.stop("long requests are cut", deadline_s=long_s / 4, loaded=True)
            await bench.stop("idle", deadline_s=30.0, loaded=False)
            await bench.restarts(options.restarts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envoy", type=Path, default=find_envoy())
    parser.add_argument("--long-s", type=float, default=2.0)
    parser.add_argument("--restarts", type=int, default=20)
    asyncio.run(main(parser.parse_args()))
