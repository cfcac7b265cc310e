"""What the relay costs, beside a direct connection and a bare gRPC pass-through in the same run.

    python packages/xds-proxy/bench/bench_relay.py [--rounds 5] [--rest-s 60] [--json FILE]

The control plane and the client that plays Envoy are Go programs (`peers/`, needs `go`). Between
them are, in turn: nothing; a few lines of `grpc.aio` that pass messages on; the relay. The last two
are processes of their own on uvloop. Rounds of the three alternate, so that the machine's speed
cancels out; what counts are the ratios. CPU is of the process between, from /proc/PID/stat.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio
import uvloop

from xds_proxy import RelayConfig, UpstreamConfig, relaying

METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
TICKS = os.sysconf("SC_CLK_TCK")
KB, MIB = 1000, 1024 * 1024
SIZES = {1 * KB: 2000, 10 * KB: 2000, 100 * KB: 500}
"""Of responses, and how many round trips are measured at that size in a round."""
PUSHES = {1 * KB: 20_000, 10 * KB: 10_000, 100 * KB: 3_000, 10 * MIB: 10, 100 * MIB: 2}
LARGE = (
    ("one of 10 MiB", 10 * MIB, 1),
    ("one of 100 MiB", 100 * MIB, 1),
    ("three of 100 MiB", 100 * MIB, 3),
)


class _Side(Protocol):
    def read(self) -> Awaitable[object]: ...


async def read(side: _Side) -> object:
    return await side.read()


async def pass_through(address: str, path: Path) -> None:
    """The floor of any relay in Python: messages are passed on, and nothing else is done."""

    async def serve(_: object, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            call: grpc.aio.StreamStreamCall[bytes, bytes]
            call = channel.stream_stream(METHOD, None, None)(None)

            async def requests() -> None:
                while isinstance(message := await read(envoy), bytes):  # else gRPC's EOF
                    await call.write(message)
                await call.done_writing()

            upwards = asyncio.create_task(requests())
            while isinstance(message := await read(call), bytes):
                await envoy.write(message)
            upwards.cancel()

    server = grpc.aio.server(options=OPTIONS)
    service, _, name = METHOD[1:].rpartition("/")
    handler = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {name: handler}),)
    )
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


async def relay(address: str, path: Path) -> None:
    config = RelayConfig(
        socket_path=path,
        upstream=UpstreamConfig(address=address, root_certificate=None),
        trim_memory_after_s=10.0,  # as the agent has it
    )
    async with relaying(config):
        print("ready", flush=True)
        await asyncio.get_running_loop().create_future()


ROLES = {"pass-through": pass_through, "relay": relay}


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int) -> dict[str, float]:
    """Resident, proportional and unique memory of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.split()[0]: int(line.split()[1]) for line in lines}
    unique = kib["Private_Clean:"] + kib["Private_Dirty:"]
    found = {"rss": kib["Rss:"], "pss": kib["Pss:"], "unique": unique}
    return {name: round(value / 1024, 1) for name, value in found.items()}


@contextmanager
def peak_of(pid: int) -> Iterator[dict[str, float]]:
    """While the block runs, look at a process's memory 50 times a second; the most is yielded."""
    most = memory_mib(pid)
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            for name, value in memory_mib(pid).items():
                most[name] = max(most[name], value)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        done.set()
        looking.join()


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the client connects to; pid: of the process between, None without one."""

    name: str
    address: str
    pid: int | None
    peers: Path

    def run(self, pattern: str, size: int, count: int, *, warm: int = 0) -> dict[str, float]:
        """Run the client once. Returns its figures, and the CPU of the process between."""
        words = ("client", "-target", self.address, "-pattern", pattern)
        numbers = ("-size", str(size), "-count", str(count), "-warm", str(warm))
        before = cpu_s(self.pid) if self.pid else 0.0
        done = subprocess.run(
            [self.peers, *words, *numbers], stdout=subprocess.PIPE, check=True, timeout=120
        )
        figures: dict[str, float] = json.loads(done.stdout)
        used = cpu_s(self.pid) - before if self.pid else 0.0
        figures["cpu_us"] = used / (count + warm) * 1e6
        figures["per_s"] = count / figures["seconds"]
        figures["mb_per_s"] = figures["per_s"] * figures["bytes"] / 1e6
        return figures


class Rounds:
    """The figures of all rounds; a figure is the median of its rounds."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str, int], list[dict[str, float]]] = {}

    def run(self, target: Target, pattern: str, size: int, count: int, *, warm: int) -> None:
        taken = self._taken.setdefault((target.name, pattern, size), [])
        taken.append(target.run(pattern, size, count, warm=warm))

    def figures(self) -> dict[str, float]:
        """Return every figure by the name of its target, pattern and size."""
        return {
            f"{target} {pattern} {in_words(size)} {name}": round(
                statistics.median(each[name] for each in taken), 4
            )
            for (target, pattern, size), taken in self._taken.items()
            for name in taken[0]
        }


def in_words(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KB} kB"


def measure_speed(targets: Sequence[Target], count_of_rounds: int) -> dict[str, float]:
    rounds = Rounds()
    for number in range(count_of_rounds):
        print(f"round {number + 1} of {count_of_rounds}", file=sys.stderr)
        for size, count in SIZES.items():
            for target in targets:
                rounds.run(target, "echo", size, count, warm=200)
        for size, count in PUSHES.items():
            for target in targets:
                rounds.run(target, "push", size, count, warm=2)
        for target in targets:
            rounds.run(target, "acked", KB, PUSHES[KB], warm=2)
    return rounds.figures()


def measure_memory(targets: Sequence[Target], rest_s: float) -> dict[str, dict[str, float]]:
    """Memory before, at the peak of, and some time after large responses, in this order."""
    found: dict[str, dict[str, float]] = {}
    between = [target for target in targets if target.pid]
    for target in between:
        assert target.pid
        target.run("echo", KB, 100)
        found[f"{target.name} before"] = memory_mib(target.pid)
    for what, size, count in LARGE:
        for target in between:
            assert target.pid
            with peak_of(target.pid) as most:
                target.run("push", size, count)
            found[f"{target.name} {what}, peak"] = dict(most)
        print(f"resting for {rest_s:.0f} s", file=sys.stderr)
        time.sleep(rest_s)
        for target in between:
            assert target.pid
            found[f"{target.name} {what}, {rest_s:.0f} s later"] = memory_mib(target.pid)
    return found


def row(*cells: object) -> None:
    print("".join(f"{cell!s:>15}" if n else f"{cell!s:40}" for n, cell in enumerate(cells)))


def tell_line(what: str, three: Sequence[float], digits: int) -> None:
    """One figure of the three targets, and that of the relay with the pass-through's as 1."""
    ratio = f"{three[2] / three[1]:.2f}" if three[1] > 0 else "-"
    row(what, *("-" if each == 0 else f"{each:.{digits}f}" for each in three), ratio)


def tell_speed(speed: dict[str, float]) -> None:
    def of(pattern: str, size: int, name: str) -> list[float]:
        targets = ("direct", "pass-through", "relay")
        return [speed[f"{target} {pattern} {in_words(size)} {name}"] for target in targets]

    row("", "direct", "pass-through", "relay", "relay/pass.")
    for size in SIZES:
        for name in ("p50", "p99"):
            three = of("echo", size, f"{name}_ms")
            tell_line(f"{in_words(size)} round trip, {name} [ms]", three, 3)
            added = [each - three[0] for each in three]
            tell_line(f"{in_words(size)} added, {name} [ms]", added, 3)
        tell_line(f"{in_words(size)} CPU a round trip [us]", of("echo", size, "cpu_us"), 0)
    for pattern, size in (*(("push", size) for size in PUSHES), ("acked", KB)):
        what = f"{in_words(size)} {'pushed' if pattern == 'push' else 'pushed and ACKed'}"
        if size < MIB:
            tell_line(f"{what} [messages/s]", of(pattern, size, "per_s"), 0)
        tell_line(f"{what} [MB/s]", of(pattern, size, "mb_per_s"), 1)
        tell_line(f"{what}, CPU a message [us]", of(pattern, size, "cpu_us"), 0)


def tell_memory(memory: dict[str, dict[str, float]]) -> None:
    row("memory [MiB]", "RSS", "PSS", "unique")
    for name, each in memory.items():
        row(name, each["rss"], each["pss"], each["unique"])


def build_peers(directory: Path) -> Path:
    """Build the Go programs; Go keeps what it has built, so this is quick the next time."""
    if shutil.which("go") is None:
        sys.exit("the peers of this benchmark are written in Go, and there is no `go` on PATH")
    peers = directory / "peers"
    source = Path(__file__).parent / "peers"
    subprocess.run(["go", "build", "-o", peers, "."], cwd=source, check=True)
    return peers


@contextmanager
def started(command: Sequence[str | Path]) -> Iterator[tuple[int, str]]:
    """A process that says one line when it is ready; yields its id and that line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, f"{command} did not start"
        yield process.pid, line
    finally:
        process.kill()
        process.communicate()


@contextmanager
def all_targets(directory: Path, peers: Path) -> Iterator[list[Target]]:
    with ExitStack() as stack:
        _, port = stack.enter_context(started([peers, "control-plane"]))
        address = f"127.0.0.1:{port}"
        targets = [Target(name="direct", address=address, pid=None, peers=peers)]
        for role in ROLES:
            path = directory / role / "XDS"
            path.parent.mkdir(mode=0o700)
            command = [sys.executable, __file__, "--role", role, address, str(path)]
            pid, _ = stack.enter_context(started(command))
            targets.append(Target(name=role, address=f"unix:{path}", pid=pid, peers=peers))
        yield targets


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the xDS relay.")
    parser.add_argument("--rounds", type=int, default=5, help="of speed; 0 for none")
    parser.add_argument("--rest-s", type=float, default=60.0, help="after large responses")
    parser.add_argument("--no-memory", action="store_true", help="leave out large responses")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--role", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is not None:
        role, address, path = options.role
        uvloop.run(ROLES[role](address, Path(path)))
        return
    speed: dict[str, float] = {}
    memory: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="mesh-") as name:
        peers = build_peers(Path(name))
        if not options.no_memory:  # first, in fresh processes
            (fresh := Path(name) / "memory").mkdir()
            with all_targets(fresh, peers) as targets:
                memory = measure_memory(targets, options.rest_s)
        if options.rounds:
            (fresh := Path(name) / "speed").mkdir()
            with all_targets(fresh, peers) as targets:
                speed = measure_speed(targets, options.rounds)
    if speed:
        tell_speed(speed)
    if memory:
        tell_memory(memory)
    if options.json:
        options.json.write_text(json.dumps({**speed, "memory": memory}, indent=2) + "\n")


if __name__ == "__main__":
    main()
