"""A whole mesh on this machine: time until all can be used, processor time, memory a replica.

First the example of two services, several times; then one workload of many replicas, each with a
program, an agent and an Envoy of its own. All that the mesh starts counts. Linux only.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

from mesh_local import MeshFile, load_mesh_file, parse_mesh_file, prepared, running_mesh

TWO_SERVICES = Path(__file__).parents[3] / "examples/two-services/mesh.yaml"
SERVER = (
    "import http.server, os; http.server.HTTPServer((os.environ['HOST'], int(os.environ['PORT'])), "
    "http.server.SimpleHTTPRequestHandler).serve_forever()"
)
READY_WITHIN_S = 300.0


class Memory(NamedTuple):
    """What the processes of one program have, in MB: pages of their own, and with their share."""

    processes: int
    unique: float
    pss: float


class Measured(NamedTuple):
    """A mesh from its start until all can be used."""

    control_plane_s: float
    ready_s: float
    cpu_s: float
    memory: dict[str, Memory]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=50)
    options = parser.parse_args()

    example = load_mesh_file(TWO_SERVICES)
    found = [asyncio.run(measure(example)) for _ in range(options.starts)]
    print(f"the example of two services, {options.starts} starts: median, range")
    tell("start to ready", [each.ready_s for each in found], "s")
    tell("  of which the control plane", [each.control_plane_s for each in found], "s")
    tell("CPU of all until ready", [each.cpu_s for each in found], "s")

    if options.replicas:
        many = asyncio.run(measure(many_replicas(options.replicas)))
        print(f"{options.replicas} replicas")
        tell("start to ready", [many.ready_s], "s")
        tell("CPU of all until ready", [many.cpu_s], "s")
        tell("  a replica", [many.cpu_s / options.replicas], "s")
        for name, memory in many.memory.items():
            print(
                f"  {name:30} {memory.processes:3} x {memory.unique / memory.processes:6.1f} MB "
                f"of its own, {memory.pss / memory.processes:6.1f} MB with its share of files"
            )


def many_replicas(number: int) -> MeshFile:
    text = f"""
mesh: {{name: many}}
workloads:
  - name: echo
    replicas: {number}
    ports: [{{port: 8080}}]
    command: [{sys.executable!r}, -c, {SERVER!r}]
"""
    return parse_mesh_file(text, path=Path("many.yaml"))


async def measure(file: MeshFile) -> Measured:
    with tempfile.TemporaryDirectory() as folder, prepared(file, Path(folder)) as (plan, state):
        begun = time.monotonic()
        async with running_mesh(plan, state) as mesh:
            control_plane_s = time.monotonic() - begun
            await mesh.wait_ready(timeout_s=READY_WITHIN_S)
            ready_s = time.monotonic() - begun
            started = psutil.Process().children(recursive=True)
            cpu_s = sum(sum(each.cpu_times()[:2]) for each in started)
            await asyncio.sleep(2.0)  # what is done right after being ready
            return Measured(control_plane_s, ready_s, cpu_s, memory_of(started))


def memory_of(started: Iterable[psutil.Process]) -> dict[str, Memory]:
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for process in started:
        memory = process.memory_full_info()
        found[program(process)].append((memory.uss, memory.pss))
    return {
        name: Memory(len(each), *(sum(column) / 2**20 for column in zip(*each, strict=True)))
        for name, each in sorted(found.items())
    }


def program(process: psutil.Process) -> str:
    words = " ".join(process.cmdline()[:6])
    names = ("mesh_discovery", "mesh_agent", "envoy", "http.server")
    return next((name for name in names if name in words), "guard of the processes")


def tell(what: str, values: list[float], unit: str) -> None:
    spread = f"   ({min(values):.2f}-{max(values):.2f})" if len(values) > 1 else ""
    print(f"  {what:30} {statistics.median(values):6.2f} {unit}{spread}", flush=True)


if __name__ == "__main__":
    main()
