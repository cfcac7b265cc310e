"""What the relay costs, beside a direct connection and a bare gRPC pass-through in the same run.

    python packages/xds-proxy/bench/bench_relay.py [--rounds 9] [--rest-s 60] [--json FILE]

The control plane and the client that plays Envoy are Go programs (`peers/`, needs `go`). Between
them are, in turn: nothing; a few lines of `grpc.aio` that pass messages on; the same lines behind
the acceptor that the relay has; the relay. The last three are processes of their own on uvloop.
Rounds of the four alternate, and every other one runs backwards, so that the machine's speed
cancels out. What counts are the ratios: each is of two runs of one round, and the median of all
rounds is shown with its quartiles. CPU is of all threads of the process between.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio
import uvloop

from mesh_listening import UNIX_LIMITS, grpc_acceptor, grpc_server, listening_at
from xds_proxy import RelayConfig, UpstreamConfig, relaying

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
METHODS = ("StreamAggregatedResources", "DeltaAggregatedResources")
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
KB, MIB = 1000, 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the client does. resources: in a response."""

    pattern: str
    dialect: str
    size: int
    resources: int
    count: int

    @property
    def name(self) -> str:
        done = {"echo": "round trip", "push": "pushed", "acked": "pushed and ACKed"}[self.pattern]
        of = "" if self.resources == 1 else f" of {self.resources}"
        return f"{self.dialect} {in_words(self.size)}{of} {done}"


CASES = (
    *(
        Case(pattern="echo", dialect=dialect, size=size, resources=resources, count=count)
        for dialect in ("sotw", "delta")
        for size, resources, count in (
            (1 * KB, 1, 300),
            (10 * KB, 1, 300),
            (10 * KB, 100, 200),
            (100 * KB, 100, 100),
        )
    ),
    *(
        Case(pattern="push", dialect="sotw", size=size, resources=1, count=count)
        for size, count in ((KB, 2000), (10 * KB, 1000), (100 * KB, 300), (10 * MIB, 2))
    ),
    Case(pattern="acked", dialect="sotw", size=KB, resources=1, count=1000),
    Case(pattern="acked", dialect="delta", size=KB, resources=1, count=1000),
)
LARGE = (
    ("one of 10 MiB", 10 * MIB, 1),
    ("one of 100 MiB", 100 * MIB, 1),
    ("three of 100 MiB", 100 * MIB, 3),
)


class _Side(Protocol):
    def read(self) -> Awaitable[object]: ...


async def read(side: _Side) -> object:
    return await side.read()


def passing_on(address: str) -> grpc.GenericRpcHandler[bytes, bytes]:
    """The floor of any relay in Python: messages are passed on, and nothing else is done."""

    def handler_for(method: str) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def serve(_: object, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
                call: grpc.aio.StreamStreamCall[bytes, bytes]
                call = channel.stream_stream(f"/{SERVICE}/{method}", None, None)(None)

                async def requests() -> None:
                    while isinstance(message := await read(envoy), bytes):  # else gRPC's EOF
                        await call.write(message)
                    await call.done_writing()

                upwards = asyncio.create_task(requests())
                while isinstance(message := await read(call), bytes):
                    await envoy.write(message)
                upwards.cancel()

        return grpc.stream_stream_rpc_method_handler(serve)

    return grpc.method_handlers_generic_handler(
        SERVICE, {each: handler_for(each) for each in METHODS}
    )


async def pass_through(address: str, path: Path) -> None:
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((passing_on(address),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


async def behind_acceptor(address: str, path: Path) -> None:
    """A pass-through with the relay's limits on connections and the client's credentials."""
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(listening_at(path, mode=0o600))
        acceptor = await stack.enter_async_context(
            grpc_acceptor([listening], name=f"unix:{path}", limits=UNIX_LIMITS)
        )
        server = grpc.aio.server(
            interceptors=[grpc_server.OnlyThroughAcceptor()],
            options=[*OPTIONS, *grpc_server.options(UNIX_LIMITS)],
        )
        server.add_generic_rpc_handlers((passing_on(address),))
        inside = stack.enter_context(grpc_server.listen_inside(server))
        await server.start()
        stack.enter_context(acceptor.forwarding(inside))
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


ROLES = {"pass-through": pass_through, "acceptor": behind_acceptor, "relay": relay}


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


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

    def run(self, case: Case, *, warm: int) -> dict[str, float]:
        """Run the client once. Returns its figures, and the CPU of the process between."""
        words = ("-target", self.address, "-pattern", case.pattern, "-dialect", case.dialect)
        numbers = {
            "size": case.size,
            "resources": case.resources,
            "count": case.count,
            "warm": warm,
        }
        command: list[str | Path] = [self.peers, "client", *words]
        for name, number in numbers.items():
            command += (f"-{name}", str(number))
        before = cpu_s(self.pid) if self.pid else 0.0
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120)
        figures: dict[str, float] = json.loads(done.stdout)
        used = cpu_s(self.pid) - before if self.pid else 0.0
        figures["cpu_us"] = used / (case.count + warm) * 1e6
        figures["per_s"] = case.count / figures["seconds"]
        figures["mb_per_s"] = figures["per_s"] * figures["bytes"] / 1e6
        return figures


Taken = dict[str, list[dict[str, float]]]
"""The figures of each round, by the name of the target."""


def in_words(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KB} kB"


def measure_speed(targets: Sequence[Target], count_of_rounds: int) -> dict[Case, Taken]:
    found: dict[Case, Taken] = {case: {each.name: [] for each in targets} for case in CASES}
    for number in range(count_of_rounds):
        print(f"round {number + 1} of {count_of_rounds}", file=sys.stderr)
        for case, taken in found.items():
            for target in targets if number % 2 else reversed(targets):
                warm = 2 if case.size >= MIB else 20
                taken[target.name].append(target.run(case, warm=warm))
    return found


def measure_memory(targets: Sequence[Target], rest_s: float) -> dict[str, dict[str, float]]:
    """Memory before, at the peak of, and some time after large responses, in this order."""
    found: dict[str, dict[str, float]] = {}
    between = [target for target in targets if target.pid]
    for target in between:
        assert target.pid
        first = Case(pattern="echo", dialect="sotw", size=KB, resources=1, count=100)
        target.run(first, warm=0)
        found[f"{target.name} before"] = memory_mib(target.pid)
    for what, size, count in LARGE:
        case = Case(pattern="push", dialect="sotw", size=size, resources=10, count=count)
        for target in between:
            assert target.pid
            with peak_of(target.pid) as most:
                target.run(case, warm=0)
            found[f"{target.name} {what}, peak"] = dict(most)
        print(f"resting for {rest_s:.0f} s", file=sys.stderr)
        time.sleep(rest_s)
        for target in between:
            assert target.pid
            found[f"{target.name} {what}, {rest_s:.0f} s later"] = memory_mib(target.pid)
    return found


def row(what: str, *cells: str) -> None:
    print(f"{what:48}" + "".join(f"{cell:>19}" for cell in cells))


def median_of(taken: Taken, target: str, name: str) -> float:
    return statistics.median(each[name] for each in taken[target])


def ratio_of(taken: Taken, name: str, target: str, floor: str, *, less: str | None = None) -> str:
    """The median ratio of two targets' figure in one round, and its quartiles.

    less: a target whose figure is taken off both.
    """

    def figures(of: str) -> list[float]:
        if less is None:
            return [each[name] for each in taken[of]]
        return [a[name] - b[name] for a, b in zip(taken[of], taken[less], strict=True)]

    pairs = zip(figures(target), figures(floor), strict=True)
    ratios = [each / of for each, of in pairs if of > 0]
    if len(ratios) < 2:
        return "-"
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{statistics.median(ratios):.2f} ({low:.2f}-{high:.2f})"


def tell_line(taken: Taken, what: str, name: str, digits: int, *, less: str | None = None) -> None:
    """One figure of all targets, and that of the relay with the pass-throughs' as 1."""
    taken_off = 0.0 if less is None else median_of(taken, less, name)
    shown = [median_of(taken, target, name) - taken_off for target in taken]
    row(
        what,
        *(f"{each:.{digits}f}" if each > 0 else "-" for each in shown),
        *(
            ratio_of(taken, name, "relay", floor, less=less)
            for floor in ("pass-through", "acceptor")
        ),
    )


def tell_speed(speed: dict[Case, Taken]) -> None:
    row("", "direct", "pass-through", "behind acceptor", "relay", "relay/pass.", "relay/acceptor")
    for case, taken in speed.items():
        if case.pattern == "echo":
            tell_line(taken, f"{case.name}, added p50 [ms]", "p50_ms", 3, less="direct")
            tell_line(taken, f"{case.name}, p99 [ms]", "p99_ms", 3)
        else:
            if case.size < MIB:
                tell_line(taken, f"{case.name} [messages/s]", "per_s", 0)
            tell_line(taken, f"{case.name} [MB/s]", "mb_per_s", 1)
        tell_line(taken, f"{case.name}, CPU [us]", "cpu_us", 0)


def tell_memory(memory: dict[str, dict[str, float]]) -> None:
    row("memory [MiB]", "RSS", "PSS", "unique")
    for name, each in memory.items():
        row(name, str(each["rss"]), str(each["pss"]), str(each["unique"]))


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
    parser.add_argument("--rounds", type=int, default=9, help="of speed; 0 for none")
    parser.add_argument("--rest-s", type=float, default=60.0, help="after large responses")
    parser.add_argument("--no-memory", action="store_true", help="leave out large responses")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--role", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is not None:
        role, address, path = options.role
        uvloop.run(ROLES[role](address, Path(path)))
        return
    speed: dict[Case, Taken] = {}
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
        named = {case.name: taken for case, taken in speed.items()}
        options.json.write_text(json.dumps({"speed": named, "memory": memory}, indent=2) + "\n")


if __name__ == "__main__":
    main()
