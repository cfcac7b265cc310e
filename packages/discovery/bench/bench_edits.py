"""Edits of the files: from the edit to the last sidecar, and the server's CPU and memory for it.

Run as a script. The load is `sidecars.py`, or with `--sidecars PATH` a program that is faster, and
so tells more of the time to the last sidecar: it connects as `-n` sidecars to `-addr`, says on a
line of JSON when all have their configuration, and answers the lines `arm TEXT` and
`wait TYPES SECONDS` with when a response with the text came to the first and to the last of them.
Servers and load have processes of their own, and alternate in one run:

- the control plane of this checkout, as it is started in production;
- with `--against PYTHON`, that of the checkout whose interpreter it is;
- with `--peer COMMAND`, another control plane that reads Istio's files, such as istiod:
  `pilot-discovery discovery --registries= --configDir {directory} --meshConfig {mesh}
  --grpcAddr 127.0.0.1:{port} ...`; {port1} to {port4} are further free ports;
- gRPC for Python alone: a line on its standard input makes it write as many bytes to every stream.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mesh_testkit.measurements import FLOOR, Row, tell

NAMESPACE = "default"
SIDECARS = str(Path(__file__).with_name("sidecars.py"))
PATIENCE_S = 300
LONGEST_S = 10
"""How long an edit is waited for; what is not seen by then has no time."""


def service(number: int, *, addresses: tuple[str, ...], workloads: bool = False) -> str:
    """A ServiceEntry with an HTTP port."""
    lines = [
        "apiVersion: networking.istio.io/v1",
        "kind: ServiceEntry",
        f"metadata: {{name: service-{number}, namespace: {NAMESPACE}}}",
        "spec:",
        f"  hosts: [service-{number}.{NAMESPACE}.svc.cluster.local]",
        "  location: MESH_INTERNAL",
        "  resolution: STATIC",
        "  ports: [{number: 80, name: http, targetPort: 8080}]",
    ]
    if workloads:
        lines += ["  workloadSelector: {labels: {app: selected}}"]
    else:
        lines += ["  endpoints:"]
        lines += [f"  - {{address: {each}, serviceAccount: load}}" for each in addresses]
    return "\n".join(lines) + "\n"


def workload(address: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n"
        f"metadata: {{name: workload, namespace: {NAMESPACE}}}\n"
        f"spec: {{address: {address}, serviceAccount: load, labels: {{app: selected}}}}\n"
    )


def policy(mode: str) -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: default, namespace: {NAMESPACE}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


def mesh(connect_timeout_s: int) -> str:
    return f"trustDomain: cluster.local\nconnectTimeout: {connect_timeout_s}s\n"


class Files:
    """A mesh of a number of services, in one file or in one for each, and its edits."""

    def __init__(self, directory: Path, number: int, *, one: bool) -> None:
        self.directory = directory / "mesh"
        self.mesh = directory / "mesh-config.yaml"
        self.directory.mkdir()
        self._one = one
        self._number = number
        self._count = 0
        self._documents = {
            f"service-{n}": service(n, addresses=(self._address(n, 1), self._address(n, 2)))
            for n in range(number)
        }
        self._documents["selecting"] = service(number, addresses=(), workloads=True)
        self._documents["workload"] = workload("10.91.0.1")
        self._documents["policy"] = policy("PERMISSIVE")
        self._write(self.mesh, mesh(10))
        for name in self._documents:
            if not one:
                self._write_document(name)
        if one:
            self._write_document("")

    def edit(self, kind: str) -> tuple[str, str]:
        """Make an edit; return a text that responses have then, and the type that has it."""
        self._count += 1
        count = self._count
        changed, wanted = self._edited(kind, count)
        for name, text in changed.items():
            if text:
                self._documents[name] = text
            else:
                del self._documents[name]
        if kind == "mesh":
            self._write(self.mesh, mesh(10 + count % 50))
        for name in list(changed)[: 1 if self._one else None]:
            self._write_document(name)
        return wanted

    def wanted(self, kind: str) -> tuple[str, str]:
        """Return what the next edit of this kind will be seen by."""
        return self._edited(kind, self._count + 1)[1]

    def _edited(self, kind: str, count: int) -> tuple[dict[str, str], tuple[str, str]]:
        fresh = f"10.92.{count // 250}.{count % 250 + 1}"
        middle = self._number // 2
        any_host = f"service-{middle}.{NAMESPACE}"
        match kind:
            case "endpoint":
                text = service(middle, addresses=(self._address(middle, 1), fresh))
                return {f"service-{middle}": text}, (fresh, "EDS")
            case "add":
                new = self._number + 100 + count
                text = service(new, addresses=(fresh,))
                return {f"service-{new}": text}, (f"service-{new}.{NAMESPACE}", "CDS")
            case "remove":
                last = list(self._documents)[-1]
                # Its routes go first: clusters stay until no listener that drains needs them.
                return {last: ""}, (any_host, "RDS")
            case "policy":
                mode = "DISABLE" if "PERMISSIVE" in self._documents["policy"] else "PERMISSIVE"
                return {"policy": policy(mode)}, (self._address(middle, 1), "EDS")
            case "workload":
                return {"workload": workload(fresh)}, (fresh, "EDS")
            case "mesh":
                return {}, (any_host, "CDS")
            case _:
                raise ValueError(kind)

    def _write_document(self, name: str) -> None:
        if self._one:
            self._write(self.directory / "all.yaml", "---\n".join(self._documents.values()))
        elif name in self._documents:
            self._write(self.directory / f"{name}.yaml", self._documents[name])
        else:
            (self.directory / f"{name}.yaml").unlink()

    def _write(self, path: Path, text: str) -> None:
        draft = path.parent.parent / f".{path.name}.new"
        draft.write_text(text)
        draft.rename(path)

    @staticmethod
    def _address(number: int, part: int) -> str:
        return f"10.{100 + part}.{number // 250}.{number % 250 + 1}"


class Process:
    """A server or the load, with what the kernel says of it."""

    def __init__(self, command: list[str], *, log: Path, environment: dict[str, str]) -> None:
        self.started = time.time()
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **environment},
        )

    def drain(self) -> None:
        """Throw away what it prints."""
        assert self._process.stdout is not None
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def cpu_s(self) -> float:
        """Return the time of all its threads, by its clock: see clock_getcpuclockid(3)."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def memory_mb(self) -> tuple[float, float, float]:
        """RSS, PSS and unique memory."""
        sizes: dict[str, int] = {}
        rollup = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text()
        for line in rollup.splitlines()[1:]:
            name, size, *_ = line.split()
            sizes[name] = int(size)
        unique = sizes["Private_Clean:"] + sizes["Private_Dirty:"]
        return sizes["Rss:"] / 1024, sizes["Pss:"] / 1024, unique / 1024

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()


@dataclass
class Figures:
    """What one kind of edit took with one server, over the rounds."""

    last_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for_port(port: int) -> None:
    end = time.time() + PATIENCE_S
    while time.time() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"nothing listens on {port}")


class Plane:
    """A control plane, its files, and the sidecars that are connected to it."""

    def __init__(self, name: str, command: str, arguments: argparse.Namespace, home: Path) -> None:
        home.mkdir()
        self.name = name
        self.files = Files(home, arguments.services, one=arguments.one_file)
        self._is_floor = command == "floor"
        ports = free_ports(5)
        if self._is_floor:
            words = [sys.executable, __file__, "--floor", str(ports[0])]
        else:
            places = {f"port{n}": str(port) for n, port in enumerate(ports)}
            words = [
                word.format(
                    directory=self.files.directory,
                    mesh=self.files.mesh,
                    port=ports[0],
                    home=home,
                    **places,
                )
                for word in shlex.split(command)
            ]
        self.server = Process(words, log=home / "server.log", environment={})
        if not self._is_floor:
            self.server.drain()
        wait_for_port(ports[0])
        self.serving_s = time.time() - self.server.started
        self.serving_cpu_s = self.server.cpu_s()
        self.empty_mb = self.server.memory_mb()
        program = [arguments.sidecars] if arguments.sidecars else [sys.executable, SIDECARS]
        load = [*program, "-addr", f"127.0.0.1:{ports[0]}", "-n", str(arguments.clients)]
        load += ["-delta"] if arguments.delta else []
        load += ["-namespace", NAMESPACE, "-timeout", "280s"]
        self.load = Process(load, log=home / "load.log", environment={})
        self.ready = self.load.answer()
        self.ready_cpu_s = self.server.cpu_s() - self.serving_cpu_s
        self.full_mb = self.server.memory_mb()
        self.figures: dict[str, Figures] = {}

    def edit(self, kind: str, *, quiet_s: float) -> None:
        text, type_name = self.files.wanted(kind)
        time.sleep(quiet_s)  # what the edit before left to do is not this one's
        self.load.tell(f"arm {text}")
        self.load.answer()
        cpu = self.server.cpu_s()
        began = time.time()
        if self._is_floor:
            self.files.edit(kind)
            began = time.time()
            self.server.tell(text)
        else:
            self.files.edit(kind)
            began = (began + time.time()) / 2
        if self._is_floor:
            type_name = "EDS"
        self.load.tell(f"wait {type_name} {LONGEST_S}")
        found = self.load.answer()
        time.sleep(0.3)  # the acknowledgements
        figures = self.figures.setdefault(kind, Figures())
        figures.cpu_s.append(self.server.cpu_s() - cpu)
        seen = found.get(type_name, {"n": 0})
        complete = seen["n"] == self.ready["n"]
        figures.last_s.append(seen["last"] - began if complete else float("nan"))
        figure = f"{kind} {self.name} {figures.last_s[-1]:.3f} s, {figures.cpu_s[-1]:.2f} CPU"
        print(figure, file=sys.stderr, flush=True)

    def end(self) -> None:
        self.load.end()
        self.server.end()


def report(planes: list[Plane], kinds: list[str]) -> None:
    for plane in planes:
        ready = plane.ready
        print(
            f"{plane.name:8} serves after {plane.serving_s:.2f} s ({plane.serving_cpu_s:.2f} CPU); "
            f"{ready['n']} sidecars ready after {ready.get('last', float('nan')):.2f} s "
            f"({plane.ready_cpu_s:.2f} CPU); RSS/PSS/unique MB "
            f"{_sizes(plane.empty_mb)} at first, {_sizes(plane.full_mb)} with sidecars, "
            f"{_sizes(plane.server.memory_mb())} at the end"
        )
    print(f"{'edit':10}{'server':10}{'last, s':>26}{'CPU, s':>26}")
    for kind in kinds:
        for plane in planes:
            if (found := plane.figures.get(kind)) is not None:
                print(
                    f"{kind:10}{plane.name:10}{_range(found.last_s):>26}{_range(found.cpu_s):>26}"
                )
    tell_rows({plane.name: plane.figures for plane in planes}, kinds)


def tell_rows(figures: Mapping[str, Mapping[str, Figures]], kinds: list[str]) -> None:
    """Tell ours beside the floor, which was measured with the first kind of edit."""
    if "floor" in figures:
        ours, floor = figures["ours"][kinds[0]], figures["floor"][kinds[0]]
        for what, unit, mine, bare in (
            ("edit of an endpoint: server's CPU", "ms", ours.cpu_s, floor.cpu_s),
            ("edit of an endpoint: to the last sidecar", "ms", ours.last_s, floor.last_s),
        ):
            scaled = [[value * 1000 for value in values] for values in (mine, bare)]
            tell([Row(what, unit, scaled[0], {FLOOR: scaled[1]})])


def _sizes(sizes: tuple[float, float, float]) -> str:
    return "/".join(f"{each:.0f}" for each in sizes)


def _range(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


OURS = (
    "{python} -m mesh_discovery discovery --config-dir {{directory}} --mesh-config {{mesh}} "
    "--ca-dir {{home}}/ca --grpc-addr 127.0.0.1:{{port}} --secure-grpc-addr '' --http-addr '' "
    "--monitoring-addr 127.0.0.1:{{port1}} --log-as-json"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sidecars", help="another load than sidecars.py")
    parser.add_argument("--against", help="the interpreter of another checkout")
    parser.add_argument("--peer", help="the command of another control plane")
    parser.add_argument("--services", type=int, default=100)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("--one-file", action="store_true", help="not a file for each service")
    parser.add_argument("--edits", default="endpoint,add,remove,policy,workload,mesh")
    parser.add_argument("--quiet", type=float, default=1.0, help="seconds before each edit")
    parser.add_argument("--no-floor", action="store_true")
    parser.add_argument("--keep", help="a directory for the logs")
    parser.add_argument("--floor", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.floor is not None:
        asyncio.run(floor(arguments.floor))
        return
    commands = {"ours": OURS.format(python=sys.executable)}
    if arguments.against is not None:
        commands = {"before": OURS.format(python=arguments.against), **commands}
    if arguments.peer is not None:
        commands["peer"] = arguments.peer
    if not (arguments.no_floor or arguments.delta):
        commands["floor"] = "floor"
    kinds = arguments.edits.split(",")
    with contextlib.ExitStack() as stack:
        home = Path(arguments.keep or stack.enter_context(tempfile.TemporaryDirectory()))
        planes = []
        for name, command in commands.items():
            planes.append(Plane(name, command, arguments, home / name))
            stack.callback(planes[-1].end)
        for _ in range(arguments.rounds):
            for kind in kinds:
                for plane in planes:
                    if plane.name != "floor" or kind == kinds[0]:
                        plane.edit(kind, quiet_s=arguments.quiet)
        report(planes, kinds)


async def floor(port: int) -> None:
    """Answer every request with nothing, and write one response to all at each line of input."""
    import grpc
    import grpc.aio
    import uvloop  # noqa: F401  (the control plane has it, too)
    from envoy.service.discovery.v3 import discovery_pb2

    changed = asyncio.Condition()
    response = b""

    async def stream(requests: Any, context: Any) -> None:
        first = discovery_pb2.DiscoveryRequest.FromString(await anext(requests))
        answered = {first.type_url}
        await context.write(_nothing(first.type_url))

        async def read() -> None:
            async for raw in requests:
                if b"discovery" in raw or len(answered) < 2:
                    asked = discovery_pb2.DiscoveryRequest.FromString(raw).type_url
                    if asked not in answered:
                        answered.add(asked)
                        await context.write(_nothing(asked))

        reading = asyncio.create_task(read(), name="floor reader")
        try:
            while True:
                async with changed:
                    await changed.wait()
                await context.write(response)
        finally:
            reading.cancel()

    def _nothing(type_url: str) -> bytes:
        found = discovery_pb2.DiscoveryResponse(version_info="1", type_url=type_url, nonce="1")
        return found.SerializeToString()

    service_name = "envoy.service.discovery.v3.AggregatedDiscoveryService"
    handlers = {
        name: grpc.stream_stream_rpc_method_handler(stream)
        for name in ("StreamAggregatedResources", "DeltaAggregatedResources")
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service_name, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    lines: asyncio.Queue[str] = asyncio.Queue()
    _read_lines(lines.put_nowait)
    while text := await lines.get():
        body = discovery_pb2.DiscoveryResponse(
            version_info=text.strip().ljust(400),
            type_url="type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            nonce="2",
        )
        response = body.SerializeToString()
        async with changed:
            changed.notify_all()


def _read_lines(take: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()

    def lines() -> Iterator[str]:
        yield from sys.stdin
        yield ""

    def read() -> None:
        for each in lines():
            loop.call_soon_threadsafe(take, each)

    threading.Thread(target=read, daemon=True).start()


if __name__ == "__main__":
    main()
