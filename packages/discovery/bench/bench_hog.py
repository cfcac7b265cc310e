"""A control plane beside one caller that takes what it can: memory, and a new proxy's first answer.

Run as a script. The hog (`hog.py`) and the server have processes of their own. New proxies connect
one after the other, first alone and then beside the hog, and the ratios are of one run. With
`--against PYTHON` the control plane of another checkout is measured in the same run; a kind of hog
is KIND:STREAMS:NAMES.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc.aio
from bench_edits import OURS, Process, free_ports, wait_for_port
from hog import CDS, OPTIONS, SERVICE, Sotw, node
from mesh_files import Files

HOG = str(Path(__file__).with_name("hog.py"))
PATIENCE_S = 60.0
HOGS = "names:24:140000,sotw-names:24:140000,unread:300:0"


class Plane:
    """A control plane of one checkout."""

    def __init__(self, python: str, home: Path, *, services: int) -> None:
        home.mkdir()
        files = Files(home, services, one=True)
        ports = free_ports(2)
        places = {"port": ports[0], "port1": ports[1], "home": home}
        command = OURS.format(python=python).format(
            directory=files.directory, mesh=files.mesh, **places
        )
        words = command.replace("''", "").split(" ")
        self.log = home / "server.log"
        self.process = Process(words, log=self.log, environment={})
        self.process.drain()
        wait_for_port(ports[0])
        self.address = f"127.0.0.1:{ports[0]}"

    def memory_mb(self) -> float:
        return self.process.memory_mb()[0]

    def warnings(self) -> int:
        return sum('"warn' in line.lower() for line in self.log.read_text().splitlines())


async def first_answer(address: str, number: int) -> float:
    """Return the seconds from connecting until a new proxy has its clusters, failed tries too."""
    began = time.monotonic()
    first = Sotw(type_url=CDS, node=node(f"new-{number}")).SerializeToString()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while not await has_answer(address, first):
                pass
    return time.monotonic() - began


async def has_answer(address: str, first: bytes) -> bool:
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        call: Any = channel.stream_stream(f"{SERVICE}/StreamAggregatedResources", None, None)(None)
        try:
            await call.write(first)
            return isinstance(await call.read(), bytes)
        except grpc.aio.AioRpcError:  # gRPC gives up after 20 s
            return False
        finally:
            call.cancel()


async def newcomers(plane: Plane, seconds: float) -> tuple[list[float], float]:
    """Return the first answers of proxies that come one after the other, and the most memory."""
    took_s: list[float] = []
    most_mb = plane.memory_mb()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        took_s.append(await first_answer(plane.address, len(took_s)))
        most_mb = max(most_mb, plane.memory_mb())
        await asyncio.sleep(0.2)
    return took_s, most_mb


async def measure(name: str, plane: Plane, hog: str, seconds: float) -> None:
    kind, streams, number = hog.split(":")
    await first_answer(plane.address, 0)
    alone_s, alone_mb = await newcomers(plane, seconds / 2)
    before_mb, warned, cpu_s = plane.memory_mb(), plane.warnings(), plane.process.cpu_s()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, HOG, plane.address, kind, streams, number),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readline()
    beside_s, most_mb = await newcomers(plane, seconds)
    process.stdin.close()
    ends = json.loads(await process.stdout.readline())
    await process.wait()
    cpu_s = plane.process.cpu_s() - cpu_s
    print(
        f"{name} {hog}: +{most_mb - before_mb:.0f} MiB ({most_mb / alone_mb:.2f} times), "
        f"first answer {_spread(beside_s)} beside, {_spread(alone_s)} alone, "
        f"{statistics.median(beside_s) / statistics.median(alone_s):.1f} times; "
        f"{cpu_s:.1f} s of CPU in {seconds:g}, {plane.warnings() - warned} warnings; ends {ends}",
        flush=True,
    )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} s (to {max(values):.3f})"


async def main(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(arguments.keep or directory)
        pythons = {"before": arguments.against} if arguments.against else {}
        for hog in arguments.hogs.split(","):
            for name, python in {**pythons, "ours": sys.executable}.items():
                where = home / f"{name}-{hog.replace(':', '-')}"
                plane = Plane(python, where, services=arguments.services)
                try:
                    await measure(name, plane, hog, arguments.seconds)
                finally:
                    plane.process.end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", help="the interpreter of another checkout")
    parser.add_argument("--services", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0, help="beside each hog")
    parser.add_argument("--hogs", default=HOGS)
    parser.add_argument("--keep", help="a directory for the logs")
    asyncio.run(main(parser.parse_args()))
